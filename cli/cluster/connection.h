// Connection: the API server of a command, found as kubectl finds it, with errors worded for the
// user of the command line.
#ifndef LOCKSTEP_CLI_CLUSTER_CONNECTION_H_
#define LOCKSTEP_CLI_CLUSTER_CONNECTION_H_

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/cluster_command.h"
#include "operator/kube/api.h"
#include "operator/kube/client.h"
#include "operator/kube/config/client_config.h"
#include "operator/kube/http/transport.h"

namespace lockstep::cli {

// --kubeconfig, else $KUBECONFIG, else ~/.kube/config, else the service account of the pod we are
// in.
Result<kube::ClientConfig> FindCluster(const ClusterAddress& where);

// Words `error` of `doing` something ("create trainingjob gpt") on `server`. The kind is
// NotFound, Invalid (the request itself is wrong), Conflict (exists already), Denied, Unavailable.
Error Explain(const kube::ApiError& error, std::string_view doing, std::string_view server);

// The exit code that says so.
int ExitCodeOf(const Error& error);
// Prints the error on standard error and returns its exit code.
int Fail(const Error& error);

class Connection {
 public:
  static Result<std::unique_ptr<Connection>> Open(const ClusterAddress& where);
  static Result<std::unique_ptr<Connection>> Open(kube::ClientConfig config);

  const std::string& name_space() const { return config_.default_namespace; }
  const std::string& server() const { return config_.server; }
  kube::Client& client() { return *client_; }
  // The answer's body. `doing` as in Explain.
  Result<std::string> Get(std::string path, std::string_view doing);
  Result<std::string> Call(kube::Request request, std::string_view doing);
  // A transport of its own, for streams whose slow reader may block the transport's threads.
  Result<std::unique_ptr<kube::Transport>> OpenTransport() const;

 private:
  explicit Connection(kube::ClientConfig config) : config_(std::move(config)) {}

  kube::ClientConfig config_;
  std::unique_ptr<kube::Client> client_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_CONNECTION_H_
