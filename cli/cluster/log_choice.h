// Chooses the pods whose logs `lockstep logs` shows. Pure.
#ifndef LOCKSTEP_CLI_CLUSTER_LOG_CHOICE_H_
#define LOCKSTEP_CLI_CLUSTER_LOG_CHOICE_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/cluster/jobs.h"
#include "cli/cluster_command.h"
#include "operator/kube/views.h"

namespace lockstep::cli {

// The machine of --rank or --machine; none: all of them. Invalid says what the job has.
Result<std::optional<int>> MachineAsked(const StoredJob& job, const LogsCommand& command);

// Whether its worker has printed, or may have.
bool HasStarted(const kube::PodView& pod);
// What it waits for: "ContainerCreating", "Unschedulable: 0/20 nodes ...".
std::string WaitsFor(const kube::PodView& pod);

// The query for all pods of a job.
std::string PodsOf(const std::string& job);

using PodsByMachine = std::map<int, const kube::PodView*>;

// Of each machine the pod of the highest attempt: its current one. With `machine`, of that alone.
PodsByMachine CurrentPods(const std::vector<const kube::PodView*>& pods,
                          std::optional<int> machine);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_LOG_CHOICE_H_
