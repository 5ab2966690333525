#include "operator/kube/client_config.h"

#include <cstdlib>
#include <fstream>

namespace lockstep::kube {

Result<ClientConfig> LoadInCluster() { return LoadInCluster(kServiceAccountFolder); }

Result<ClientConfig> LoadInCluster(const std::string& folder) {
  const char* host = std::getenv("KUBERNETES_SERVICE_HOST");
  const char* port = std::getenv("KUBERNETES_SERVICE_PORT");
  if (host == nullptr || port == nullptr) {
    return Error::NotFound(
        "KUBERNETES_SERVICE_HOST and _PORT are not set: this is no pod, say --kubeconfig");
  }
  ClientConfig config;
  std::string address = host;
  bool is_ipv6 = address.find(':') != std::string::npos;
  config.server = "https://" + (is_ipv6 ? "[" + address + "]" : address) + ":" + port;
  config.ca.file = folder + "/ca.crt";
  config.token.file = folder + "/token";
  std::ifstream name_space(folder + "/namespace");
  std::string name;
  // A name is 63 characters at most; the rest of a wrong file is not read.
  for (char c = 0; name.size() < 64 && name_space.get(c) && c > ' ';) name.push_back(c);
  if (!name.empty()) config.default_namespace = name;
  return config;
}

}  // namespace lockstep::kube
