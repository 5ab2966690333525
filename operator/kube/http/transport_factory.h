// Makes a Transport on one of the HTTP libraries, through one interface, so that the same tests run
// on each. docs/adr/010-cpprestsdk-as-a-choice.md says why there are two.
#ifndef LOCKSTEP_OPERATOR_KUBE_HTTP_TRANSPORT_FACTORY_H_
#define LOCKSTEP_OPERATOR_KUBE_HTTP_TRANSPORT_FACTORY_H_

#include <memory>
#include <string>

#include "base/result.h"
#include "operator/kube/config/credentials.h"
#include "operator/kube/http/transport.h"

namespace lockstep::kube {

struct TransportParts {
  std::string server;           // as in ClientConfig
  std::string tls_server_name;  // the same
  std::shared_ptr<Credentials> credentials;
  TransportOptions options;
};

using TransportFactory = Result<std::unique_ptr<Transport>>(TransportParts parts);

// HTTP/1.1. One thread, an EventLoop that drives libcurl's multi handle; every callback runs there.
TransportFactory MakeCurlTransport;

// HTTP/1.1, for requests; its streams are libcurl's. All of cpprestsdk runs on one thread for the
// whole process, which is also the one that calls back: with more, its cancellation touches a TLS
// connection while another thread is in it. In library lockstep_cpprest_transport.
TransportFactory MakeCpprestTransport;

struct HttpLibrary {
  const char* name;  // as CMake's LOCKSTEP_HTTP has it
  TransportFactory* make;
};
inline constexpr HttpLibrary kCurl{"curl", &MakeCurlTransport};
inline constexpr HttpLibrary kCpprestsdk{"cpprestsdk", &MakeCpprestTransport};

// As transport.h's MakeTransport, which is on libcurl.
Result<std::unique_ptr<Transport>> MakeTransport(ClientConfig config, TransportOptions options,
                                                 const HttpLibrary& http);

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_HTTP_TRANSPORT_FACTORY_H_
