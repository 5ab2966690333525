// CurlTransport: Transport on libcurl, HTTP/1.1. One thread: an EventLoop that drives libcurl's
// multi handle; every callback runs there.
#ifndef LOCKSTEP_OPERATOR_KUBE_CURL_TRANSPORT_H_
#define LOCKSTEP_OPERATOR_KUBE_CURL_TRANSPORT_H_

#include <memory>
#include <string>

#include "base/result.h"
#include "operator/kube/credentials.h"
#include "operator/kube/transport.h"

namespace lockstep::kube {

// `server` and `tls_server_name` as in ClientConfig.
Result<std::unique_ptr<Transport>> MakeCurlTransport(const std::string& server,
                                                     const std::string& tls_server_name,
                                                     std::shared_ptr<Credentials> credentials,
                                                     TransportOptions options);

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_CURL_TRANSPORT_H_
