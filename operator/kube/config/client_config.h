// ClientConfig: the API server's address, the authorities to trust and the credentials, read from a
// kubeconfig file or from a pod's service account. Makes no connection.
#ifndef LOCKSTEP_OPERATOR_KUBE_CONFIG_CLIENT_CONFIG_H_
#define LOCKSTEP_OPERATOR_KUBE_CONFIG_CLIENT_CONFIG_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace lockstep::kube {

// A value that stands in the configuration, or a file that is read again when it may have changed.
struct Material {
  std::string value;
  std::string file;

  bool empty() const { return value.empty() && file.empty(); }
};

// A program that prints credentials (client.authentication.k8s.io/v1 or v1beta1). It gets no
// terminal, `timeout` to end, and may print kMaxCredential bytes.
struct ExecPlugin {
  std::string api_version{};
  std::vector<std::string> command;                      // the program, then its arguments
  std::vector<std::pair<std::string, std::string>> env;  // added to our own
  bool provide_cluster_info = false;
  std::string install_hint{};
  Duration timeout = seconds(30);
};

struct ClientConfig {
  std::string server;           // https://HOST[:PORT][/PREFIX], without a slash at its end
  std::string tls_server_name;  // the name its certificate must have, where that isn't HOST
  Material ca;                  // PEM; the only authorities trusted
  Material token;               // at most one of token and exec
  Material certificate;         // PEM, with the key or without both
  Material key;
  std::optional<ExecPlugin> exec;
  std::string default_namespace = "default";
};

inline constexpr size_t kMaxKubeconfig = size_t{1} << 20;
inline constexpr size_t kMaxCredential = size_t{128}
                                         << 10;  // of one token, certificate or key file

// Reads `context` of the kubeconfig at `path`; if empty, its current-context. Relative paths in it
// start from its folder. Errors: NotFound, Invalid (with the field), TooLarge. Settings that would
// weaken TLS (insecure-skip-tls-verify, http://) or are not supported (auth-provider, user names
// and passwords, impersonation, proxy-url) are Invalid, never ignored.
Result<ClientConfig> LoadKubeconfig(const std::string& path, const std::string& context = "");
Result<ClientConfig> ParseKubeconfig(const std::string& text, const std::string& folder,
                                     const std::string& context = "");

// From KUBERNETES_SERVICE_HOST and _PORT and the service account's folder. NotFound outside a pod.
Result<ClientConfig> LoadInCluster();
inline constexpr char kServiceAccountFolder[] = "/var/run/secrets/kubernetes.io/serviceaccount";
Result<ClientConfig> LoadInCluster(const std::string& folder);

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_CONFIG_CLIENT_CONFIG_H_
