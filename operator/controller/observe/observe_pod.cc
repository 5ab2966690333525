#include "operator/controller/observe/observe_pod.h"

#include <csignal>
#include <string_view>
#include <utility>

#include "core/exit_codes.h"
#include "core/model/shortcuts.h"
#include "operator/controller/observe/pod_ends.h"

namespace lockstep::control {
namespace {

using kube::ContainerState;
using kube::PodPhase;
using kube::PodView;

// Kubernetes gives the second in which a pod was created. Its end counts, so that no wait for a pod
// is shorter than requested.
constexpr Duration kSecondOfCreation = seconds(1);

constexpr const char* kTaken =
    "Kueue treats the pods as separate jobs: its integrations.externalFrameworks must name "
    "TrainingJob.v1alpha1.lockstep.dev, and the job needs label kueue.x-k8s.io/queue-name";

bool IsTerminal(const PodView& pod) {
  return pod.phase == PodPhase::kSucceeded || pod.phase == PodPhase::kFailed;
}

bool HasEnded(const ContainerState& container) {
  return container.kind == ContainerState::Kind::kTerminated;
}

// The runtime could not start it: what it says is of itself.
bool NeverRan(const ContainerState& container) {
  return container.reason == "StartError" || container.reason == "ContainerCannotRun";
}

void Apply(const PodEnd& row, MachineEnd& end) {
  end.payer = row.payer;
  end.asked = row.sort == PodEnd::Sort::kAsked;
  end.rejected = row.sort == PodEnd::Sort::kRefused || row.sort == PodEnd::Sort::kMisaligned;
  end.misaligned = row.sort == PodEnd::Sort::kMisaligned;
  end.out_of_memory = row.sort == PodEnd::Sort::kOutOfMemory;
}

// The message of an agent that ran has more details than the reason. If the kernel killed only one
// rank (cgroup v1), the runtime reports OOMKilled for any later end of the container.
bool Counts(const PodEnd& row, const MachineEnd& end) {
  return !end.agent_ran ||
         (row.sort == PodEnd::Sort::kOutOfMemory && end.exit_code == core::kExitSignal + SIGKILL);
}

void TakeContainer(const ContainerState& ended, std::string name, MachineEnd& end) {
  end.exit_code = ended.exit_code;
  end.signal = ended.signal;
  if (ended.reason != "Error" && ended.reason != "Completed") end.reason = ended.reason;
  (end.agent_ran ? end.termination : end.message) = ended.message;
  if (!end.agent_ran) end.container = std::move(name);
  const PodEnd& row = FindPodEnd(PodEnd::Of::kContainer, ended.reason, ended.message);
  if (Counts(row, end)) Apply(row, end);
}

// The status of the pod as a whole has precedence over the status of its containers.
void TakePod(const PodView& pod, MachineEnd& end) {
  end.container.clear();
  end.reason = pod.reason;
  end.message = pod.message;
  Apply(FindPodEnd(PodEnd::Of::kPod, pod.reason, pod.message), end);
}

MachineEnd EndOf(const PodView& pod) {
  MachineEnd end;
  const bool of_worker = HasEnded(pod.worker);
  const ContainerState& ended = of_worker ? pod.worker : pod.init;
  // Kubernetes says Succeeded only if every container exited with 0.
  const bool succeeded = !of_worker && pod.phase == PodPhase::kSucceeded;
  end.agent_ran = succeeded || (of_worker && !NeverRan(ended));
  end.message = end.agent_ran ? "" : pod.message;
  if (succeeded) {
    end.exit_code = core::kExitSuccess;
  } else if (HasEnded(ended)) {
    TakeContainer(ended, of_worker ? core::kWorkerContainer : pod.init_name, end);
  }
  if (!pod.reason.empty()) TakePod(pod, end);
  end.asked |= !pod.disruption.empty() && end.payer != Payer::kJob;
  end.asked_for = pod.disruption.empty() ? pod.reason : pod.disruption;
  return end;
}

// A container on its way says nothing of interest.
bool IsOnItsWay(std::string_view reason) {
  return reason.empty() || reason == "PodInitializing" || reason == "ContainerCreating";
}

std::optional<StartTrouble> TroubleOf(const PodView& pod) {
  const bool waits = pod.worker.kind == ContainerState::Kind::kWaiting;
  const bool agent = waits && !IsOnItsWay(pod.worker.reason);
  const ContainerState& stuck = agent ? pod.worker : pod.init;
  if (IsOnItsWay(stuck.reason)) return std::nullopt;
  return StartTrouble{.agent = agent,
                      .reason = stuck.reason,
                      .message = stuck.message,
                      .container = agent ? core::kWorkerContainer : pod.init_name,
                      .payer = FindPodEnd(PodEnd::Of::kWaiting, stuck.reason, stuck.message).payer};
}

Stage StageOf(const PodView& pod) {
  if (pod.worker.kind == ContainerState::Kind::kRunning) return Stage::kRunning;
  return pod.scheduled || !pod.node.empty() ? Stage::kPlaced : Stage::kUnplaced;
}

}  // namespace

bool IsOver(const PodView& pod) { return HasEnded(pod.worker) || IsTerminal(pod); }

NodeState StateOf(const kube::NodeView* node) {
  if (node == nullptr) return NodeState::kGone;
  if (node->out_of_service) return NodeState::kOutOfService;
  return node->unreachable ? NodeState::kUnreachable : NodeState::kWell;
}

MachineObservation ObservationOf(const PodView& pod, NodeState node) {
  MachineObservation seen;
  seen.name = pod.meta.name;
  seen.uid = pod.meta.uid;
  seen.machine = pod.machine;
  seen.attempt = pod.attempt;
  seen.spare = pod.spare;
  seen.created = pod.meta.created + kSecondOfCreation;
  seen.leave_by = pod.meta.deleted;
  seen.stage = StageOf(pod);
  seen.ready = pod.ready;
  if (IsOver(pod)) seen.end = EndOf(pod);
  seen.all_ended = IsTerminal(pod);
  seen.started = pod.worker.started;
  seen.address = pod.pod_ip;
  seen.node = pod.node;
  seen.node_state = node;
  seen.unplaced_because = pod.taken ? kTaken : pod.schedule_message;
  seen.unprepared = pod.unprepared;
  if (seen.stage == Stage::kPlaced) seen.trouble = TroubleOf(pod);
  return seen;
}

}  // namespace lockstep::control
