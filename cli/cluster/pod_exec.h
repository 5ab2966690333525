// How a pod's agent is asked something: by kubectl, with the user's own rights.
#ifndef LOCKSTEP_CLI_CLUSTER_POD_EXEC_H_
#define LOCKSTEP_CLI_CLUSTER_POD_EXEC_H_

#include <initializer_list>
#include <string>
#include <vector>

#include "cli/cluster_command.h"
#include "operator/kube/views.h"

namespace lockstep::cli {

// `kubectl exec` of the agent's program in the pod's worker, with `question` and the folder of the
// agent that runs there: "--evidence".
std::vector<std::string> AskPod(const ClusterAddress& where, const kube::PodView& pod,
                                std::initializer_list<const char*> question,
                                bool with_stdin = false);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_POD_EXEC_H_
