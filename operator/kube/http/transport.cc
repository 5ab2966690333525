#include "operator/kube/http/transport.h"

#include <utility>

#include "operator/kube/config/credentials.h"
#include "operator/kube/http/transport_factory.h"

namespace lockstep::kube {

const char* ToString(Method method) {
  switch (method) {
    case Method::kGet:
      return "GET";
    case Method::kPost:
      return "POST";
    case Method::kPut:
      return "PUT";
    case Method::kPatch:
      return "PATCH";
    case Method::kDelete:
      return "DELETE";
  }
  return "GET";
}

Result<std::unique_ptr<Transport>> MakeTransport(ClientConfig config, TransportOptions options) {
  return MakeTransport(std::move(config), std::move(options), kCurl);
}

Result<std::unique_ptr<Transport>> MakeTransport(ClientConfig config, TransportOptions options,
                                                 const HttpLibrary& http) {
  TransportParts parts{config.server, config.tls_server_name, nullptr, std::move(options)};
  Result<std::shared_ptr<Credentials>> credentials = Credentials::Create(std::move(config));
  if (!credentials.ok()) return credentials.error();
  parts.credentials = std::move(*credentials);
  return http.make(std::move(parts));
}

}  // namespace lockstep::kube
