// CpprestTransport: Transport on cpprestsdk, HTTP/1.1, for requests; its streams are libcurl's
// (docs/adr/006-http-library.md).
//
// All of cpprestsdk runs on one thread for the whole process, which is also the one that calls
// back: with more, its cancellation touches a TLS connection while another thread is in it.
#ifndef LOCKSTEP_OPERATOR_KUBE_CPPREST_TRANSPORT_H_
#define LOCKSTEP_OPERATOR_KUBE_CPPREST_TRANSPORT_H_

#include <memory>
#include <string>

#include "base/result.h"
#include "operator/kube/credentials.h"
#include "operator/kube/transport.h"

namespace lockstep::kube {

// `server` and `tls_server_name` as in ClientConfig. Errors: Invalid (a certificate or key).
Result<std::unique_ptr<Transport>> MakeCpprestTransport(const std::string& server,
                                                        const std::string& tls_server_name,
                                                        std::shared_ptr<Credentials> credentials,
                                                        TransportOptions options);

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_CPPREST_TRANSPORT_H_
