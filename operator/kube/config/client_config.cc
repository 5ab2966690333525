#include "operator/kube/config/client_config.h"

#include <algorithm>
#include <cstdlib>

#include "base/file.h"

namespace lockstep::kube {
namespace {

constexpr size_t kMaxNamespaceFile = 256;

}  // namespace

Result<ClientConfig> LoadInCluster() { return LoadInCluster(kServiceAccountFolder); }

Result<ClientConfig> LoadInCluster(const std::string& folder) {
  const char* host = std::getenv("KUBERNETES_SERVICE_HOST");
  const char* port = std::getenv("KUBERNETES_SERVICE_PORT");
  if (host == nullptr || port == nullptr) {
    return Error::NotFound(
        "KUBERNETES_SERVICE_HOST and _PORT are not set: this is not a pod; give --kubeconfig");
  }
  ClientConfig config;
  std::string address = host;
  bool is_ipv6 = address.find(':') != std::string::npos;
  config.server = "https://" + (is_ipv6 ? "[" + address + "]" : address) + ":" + port;
  config.ca.file = folder + "/ca.crt";
  config.token.file = folder + "/token";
  Result<std::string> name = ReadFile(folder + "/namespace", kMaxNamespaceFile);
  if (name.ok()) {
    // One line, with or without an end.
    name->erase(std::min(name->find_first_of(" \r\n"), name->size()));
    if (!name->empty()) config.default_namespace = *name;
  }
  return config;
}

}  // namespace lockstep::kube
