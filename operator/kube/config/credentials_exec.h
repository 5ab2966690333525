// Exec plugins: programs that print an ExecCredential.
#ifndef LOCKSTEP_OPERATOR_KUBE_CONFIG_CREDENTIALS_EXEC_H_
#define LOCKSTEP_OPERATOR_KUBE_CONFIG_CREDENTIALS_EXEC_H_

#include <optional>
#include <string>

#include "base/result.h"
#include "base/wall_time.h"
#include "operator/kube/config/client_config.h"

namespace lockstep::kube {

struct ExecCredential {
  std::string token;
  std::string certificate;  // PEM, with the key or without both
  std::string key;
  std::optional<WallTime> expires;
};

// Runs the plugin and waits for it; it and its children are killed after its timeout, when it
// prints more than kMaxCredential bytes, or once `stop` is readable. Its stderr is ours. Error:
// Denied.
Result<ExecCredential> RunExecPlugin(const ClientConfig& config, int stop);

// What it printed. Error: Denied, which never quotes it.
Result<ExecCredential> ParseExecCredential(const std::string& text);

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_CONFIG_CREDENTIALS_EXEC_H_
