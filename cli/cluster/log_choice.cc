#include "cli/cluster/log_choice.h"

#include "core/model/names.h"
#include "operator/kube/api.h"

namespace lockstep::cli {
namespace {

using Kind = kube::ContainerState::Kind;

Error OutOfRange(const StoredJob& job, const char* what, int count) {
  return Error::Invalid("trainingjob " + job.meta.name + " has " + what + "s 0 to " +
                        std::to_string(count - 1));
}

}  // namespace

Result<std::optional<int>> MachineAsked(const StoredJob& job, const LogsCommand& command) {
  const int machines = MachinesOf(job);
  const int processes = job.job.spec.processes_per_machine;
  if (command.rank) {
    const std::optional<core::ElasticStatus>& elastic = job.status.elastic;
    const int of_them = elastic ? static_cast<int>(elastic->members.size()) : machines;
    if (*command.rank < 0 || *command.rank >= of_them * processes) {
      return OutOfRange(job, "rank", of_them * processes);
    }
    const int place = *command.rank / processes;
    if (!elastic) return std::optional(place);
    return std::optional(static_cast<int>(elastic->members.At(static_cast<uint32_t>(place))));
  }
  if (command.machine && (*command.machine < 0 || *command.machine >= machines)) {
    return OutOfRange(job, "machine", machines);
  }
  return command.machine;
}

bool HasStarted(const kube::PodView& pod) {
  return pod.worker.kind == Kind::kRunning || pod.worker.kind == Kind::kTerminated;
}

std::string WaitsFor(const kube::PodView& pod) {
  if (!pod.init.reason.empty()) return pod.init.reason;
  if (!pod.worker.reason.empty()) return pod.worker.reason;
  if (pod.schedule_reason.empty()) return pod.scheduled ? "its container to start" : "a node";
  return pod.schedule_reason + ": " + pod.schedule_message;
}

std::string PodsOf(const std::string& job) {
  return kube::Query({{"labelSelector", std::string(core::kLabelPrefix) + "job=" + job}});
}

PodsByMachine CurrentPods(const std::vector<const kube::PodView*>& pods,
                          std::optional<int> machine) {
  PodsByMachine current;
  for (const kube::PodView* pod : pods) {
    if (pod->machine < 0 || (machine && pod->machine != *machine)) continue;
    const kube::PodView*& best = current[pod->machine];
    if (best == nullptr || pod->attempt > best->attempt) best = pod;
  }
  return current;
}

}  // namespace lockstep::cli
