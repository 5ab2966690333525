#include <memory>
#include <utility>
#include <vector>

#include "cli/cluster/commands.h"
#include "cli/cluster/jobs.h"
#include "cli/cluster/log_choice.h"
#include "cli/cluster/pod_exec.h"
#include "cli/programs/evidence.h"
#include "cli/say.h"
#include "core/exit_codes.h"

namespace lockstep::cli {
Result<int> Debug(const ClusterAddress& where, const DebugCommand& command) {
  Result<std::unique_ptr<Connection>> cluster = Connection::Open(where);
  if (!cluster.ok()) return cluster.error();
  Result<StoredJob> job = Jobs(cluster->get()).Get(command.name);
  if (!job.ok()) return job.error();
  LogsCommand asked;
  asked.rank = command.rank;
  Result<std::optional<int>> machine = MachineAsked(*job, asked);
  if (!machine.ok()) return machine.error();
  Result<std::vector<kube::PodView>> pods = ListPods(**cluster, command.name);
  if (!pods.ok()) return pods.error();
  std::vector<const kube::PodView*> list;
  for (const kube::PodView& pod : *pods) list.push_back(&pod);
  // All of them, for who waits for whom, though one rank's evidence is shown.
  std::vector<Question> questions;
  for (const auto& [index, pod] : CurrentPods(list, std::nullopt)) {
    if (pod->worker.kind == kube::ContainerState::Kind::kRunning) {
      questions.push_back({"pod " + pod->meta.name, AskPod(where, *pod, {"--evidence"})});
    } else {
      Say("machine " + std::to_string(index) + " does not run; it waits for " + WaitsFor(*pod));
    }
  }
  if (questions.empty()) {
    return Error::NotFound("trainingjob " + command.name + " has no pods that run now");
  }
  return AskAndShow({questions}, {command.rank, command.kernel});
}

}  // namespace lockstep::cli
