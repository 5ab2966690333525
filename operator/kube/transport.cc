#include "operator/kube/transport.h"

#include <utility>

#include "operator/kube/cpprest_transport.h"
#include "operator/kube/credentials.h"
#include "operator/kube/curl_transport.h"

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
  std::string server = config.server;
  std::string name = config.tls_server_name;
  Result<std::shared_ptr<Credentials>> credentials = Credentials::Create(std::move(config));
  if (!credentials.ok()) return credentials.error();
  auto make = options.library == HttpLibrary::kCurl ? &MakeCurlTransport : &MakeCpprestTransport;
  return make(server, name, *credentials, std::move(options));
}

}  // namespace lockstep::kube
