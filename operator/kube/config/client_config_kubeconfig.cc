// Kubeconfig files (kubectl's format, v1).
#include <openssl/evp.h>

#include <string_view>

#include "base/file.h"
#include "core/text/text.h"
#include "operator/kube/config/client_config.h"

namespace lockstep::kube {
namespace {

using core::Node;

Result<std::string> DecodeBase64(std::string text) {
  std::erase_if(text, [](char c) { return c == '\n' || c == '\r' || c == ' '; });
  std::string bytes(text.size() / 4 * 3, '\0');
  int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                             reinterpret_cast<const unsigned char*>(text.data()),
                             static_cast<int>(text.size()));
  if (text.empty() || text.size() % 4 != 0 || size < 0) return Error::Invalid("is not base64");
  // The decoder counts padding as bytes.
  size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  bytes.resize(static_cast<size_t>(size) - padding);
  return bytes;
}

// A map of the file, its path, and the first error in reading it.
class Section {
 public:
  Section(const Node* node, std::string place, const std::string& folder, Status* status)
      : node_(node), place_(std::move(place)), folder_(folder), status_(status) {}

  std::string Text(std::string_view key) const {
    const Node* found = Find(key);
    if (found == nullptr || found->IsNull()) return "";
    if (found->IsScalar()) return found->text();
    Refuse(key, "must be text");
    return "";
  }

  // KEY (a path) or KEY-data (base64).
  Material File(const std::string& key, const std::string& data_key) const {
    Material material;
    if (std::string data = Text(data_key); !data.empty()) {
      Result<std::string> decoded = DecodeBase64(std::move(data));
      if (!decoded.ok()) Refuse(data_key, decoded.error().message);
      if (decoded.ok()) material.value = std::move(*decoded);
    } else if (std::string path = Text(key); !path.empty()) {
      material.file = InFolder(path);
    }
    return material;
  }

  std::string InFolder(const std::string& path) const {
    return path.starts_with('/') ? path : folder_ + "/" + path;
  }

  // Refuses `keys`: ignoring them would change what is connected to, or how.
  void RefuseUnsupported(std::initializer_list<std::string_view> keys) const {
    for (std::string_view key : keys) {
      const Node* found = Find(key);
      if (found != nullptr && !found->IsEmpty() && found->text() != "false" &&
          !(found->IsString() && found->text().empty())) {
        Refuse(key, "is not supported");
      }
    }
  }

  const Node* Find(std::string_view key) const {
    return node_ == nullptr ? nullptr : node_->Find(key);
  }
  Section Sub(std::string_view key) const {
    return {Find(key), place_ + "." + std::string(key), folder_, status_};
  }
  void Refuse(std::string_view key, const std::string& why) const {
    if (status_->ok()) *status_ = Error::Invalid(place_ + "." + std::string(key) + " " + why);
  }

 private:
  const Node* node_;
  std::string place_;
  const std::string& folder_;
  Status* status_;
};

// The `kind` map ("cluster") of the entry called `name` in the list of `kind`s.
Section Entry(const Node& root, const std::string& kind, const std::string& name,
              const std::string& folder, Status* status) {
  std::string list = kind + "s";
  std::string place = list + "[" + name + "]." + kind;
  const Node* entries = root.Find(list);
  if (entries != nullptr) {
    for (const Node& entry : entries->items()) {
      const Node* entry_name = entry.Find("name");
      const Node* value = entry.Find(kind);
      if (entry_name != nullptr && entry_name->text() == name && value != nullptr) {
        return {value, place, folder, status};
      }
    }
  }
  if (status->ok()) *status = Error::Invalid("there is no " + kind + " named \"" + name + "\"");
  return {nullptr, place, folder, status};
}

void ReadServer(const Section& cluster, ClientConfig* config) {
  config->server = cluster.Text("server");
  while (config->server.ends_with('/')) config->server.pop_back();
  std::string_view scheme = "https://";
  if (!config->server.starts_with(scheme) || config->server.size() == scheme.size()) {
    cluster.Refuse("server", "must be https://HOST[:PORT]");
  } else if (config->server.find_first_of("@?# \t\r\n") != std::string::npos) {
    cluster.Refuse("server", "has invalid characters");
  }
  config->tls_server_name = cluster.Text("tls-server-name");
  config->ca = cluster.File("certificate-authority", "certificate-authority-data");
  if (config->ca.empty()) {
    cluster.Refuse("certificate-authority-data",
                   "is missing: the client trusts no other authority");
  }
  cluster.RefuseUnsupported({"insecure-skip-tls-verify", "proxy-url"});
}

ExecPlugin ReadExec(const Section& exec) {
  ExecPlugin plugin;
  plugin.api_version = exec.Text("apiVersion");
  if (plugin.api_version != "client.authentication.k8s.io/v1" &&
      plugin.api_version != "client.authentication.k8s.io/v1beta1") {
    exec.Refuse("apiVersion", "must be client.authentication.k8s.io/v1 or v1beta1");
  }
  std::string program = exec.Text("command");
  if (program.empty()) exec.Refuse("command", "is missing");
  // A name alone is looked for in PATH.
  bool in_path = program.find('/') == std::string::npos;
  plugin.command.push_back(in_path ? program : exec.InFolder(program));
  if (const Node* arguments = exec.Find("args")) {
    for (const Node& argument : arguments->items()) plugin.command.push_back(argument.text());
  }
  if (const Node* variables = exec.Find("env")) {
    for (const Node& variable : variables->items()) {
      const Node* name = variable.Find("name");
      const Node* value = variable.Find("value");
      if (name != nullptr && value != nullptr) plugin.env.emplace_back(name->text(), value->text());
    }
  }
  if (exec.Text("interactiveMode") == "Always") {
    exec.Refuse("interactiveMode", "must not be Always: there is no terminal");
  }
  plugin.provide_cluster_info = exec.Text("provideClusterInfo") == "true";
  plugin.install_hint = exec.Text("installHint");
  return plugin;
}

void ReadUser(const Section& user, ClientConfig* config) {
  config->certificate = user.File("client-certificate", "client-certificate-data");
  config->key = user.File("client-key", "client-key-data");
  if (config->certificate.empty() != config->key.empty()) {
    user.Refuse("client-certificate", "and client-key go together: one of them is missing");
  }
  // The file wins where both are given, as in kubectl.
  if (std::string file = user.Text("tokenFile"); !file.empty()) {
    config->token.file = user.InFolder(file);
  } else {
    config->token.value = user.Text("token");
  }
  const Node* exec = user.Find("exec");
  if (exec != nullptr && !exec->IsNull()) {
    config->exec = ReadExec(user.Sub("exec"));
    if (!config->token.empty()) user.Refuse("exec", "and token exclude each other");
  }
  user.RefuseUnsupported(
      {"username", "password", "auth-provider", "as", "as-uid", "as-groups", "as-user-extra"});
}

}  // namespace

Result<ClientConfig> ParseKubeconfig(const std::string& text, const std::string& folder,
                                     const std::string& context) {
  if (text.size() > kMaxKubeconfig) return Error::TooLarge("it is over 1 MiB");
  core::Document document = core::ReadYaml(text);
  if (!document.root) {
    return Error::Invalid(document.problems.empty() ? "it is empty"
                                                    : document.problems.front().message);
  }
  Status status;
  std::string name = context;
  if (name.empty()) name = Section(&*document.root, "", folder, &status).Text("current-context");
  if (name.empty()) return Error::Invalid("it names no current-context");

  ClientConfig config;
  Section place = Entry(*document.root, "context", name, folder, &status);
  std::string user = place.Text("user");
  if (std::string space = place.Text("namespace"); !space.empty()) config.default_namespace = space;
  ReadServer(Entry(*document.root, "cluster", place.Text("cluster"), folder, &status), &config);
  if (!user.empty()) ReadUser(Entry(*document.root, "user", user, folder, &status), &config);
  if (!status.ok()) return status.error();
  return config;
}

Result<ClientConfig> LoadKubeconfig(const std::string& path, const std::string& context) {
  Result<std::string> text = ReadFile(path, kMaxKubeconfig);
  if (!text.ok()) return text.error();
  size_t slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
  Result<ClientConfig> config = ParseKubeconfig(*text, folder, context);
  if (config.ok()) return config;
  return Error{config.error().kind, path + ": " + config.error().message};
}

}  // namespace lockstep::kube
