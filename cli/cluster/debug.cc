#include <memory>
#include <utility>
#include <vector>

#include "cli/cluster/commands.h"
#include "cli/cluster/jobs.h"
#include "cli/cluster/log_choice.h"
#include "cli/programs/evidence.h"
#include "cli/say.h"
#include "core/exit_codes.h"

namespace lockstep::cli {
namespace {

// Where a pod has its agent, and that agent its run folder (operator/objects/pod_parts.h).
constexpr const char* kAgent = "/lockstep/lockstep-agent";
constexpr const char* kRunFolder = "/run/lockstep/agent";

Question ForPod(const ClusterAddress& where, const kube::PodView& pod) {
  Question question{"pod " + pod.meta.name, {"kubectl", "exec", pod.meta.name}};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) question.argv.insert(question.argv.end(), {option, value});
  };
  add("--kubeconfig", where.kubeconfig);
  add("--context", where.context);
  add("--namespace", pod.meta.name_space);
  add("--container", "worker");
  question.argv.insert(question.argv.end(), {"--", kAgent, "--evidence", kRunFolder});
  return question;
}

}  // namespace

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
      questions.push_back(ForPod(where, *pod));
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
