#include "operator/controller/observe_pod.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>

#include "core/exit_codes.h"

namespace lockstep::control {
namespace {

using kube::ContainerState;
using kube::PodPhase;
using kube::PodView;

// Kubelet's refusals of a pod that the scheduler had sent it.
constexpr auto kRejections = std::to_array<std::string_view>(
    {"TopologyAffinityError", "SMTAlignmentError", "UnexpectedAdmissionError", "NodeAffinity"});
constexpr std::string_view kOutOf = "OutOf";  // OutOfcpu, OutOfpods, OutOfnvidia.com/gpu
constexpr auto kMisalignments =
    std::to_array<std::string_view>({"TopologyAffinityError", "SMTAlignmentError"});
// The pod was asked to leave by the cluster, which is nobody's failure.
constexpr auto kRequests = std::to_array<std::string_view>(
    {"Evicted", "Preempted", "Preempting", "Shutdown", "NodeShutdown", "Terminated"});

// Kubernetes names the whole second in which a pod was created. Taken as its end, so that nobody
// waits less for a pod than is asked for.
constexpr Duration kSecondOfCreation = seconds(1);

constexpr const char* kTaken =
    "Kueue takes the pods for jobs of their own: its integrations.externalFrameworks must name "
    "TrainingJob.v1alpha1.lockstep.dev, and the job needs label kueue.x-k8s.io/queue-name";

bool IsOneOf(std::string_view text, const auto& names) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

bool IsTerminal(const PodView& pod) {
  return pod.phase == PodPhase::kSucceeded || pod.phase == PodPhase::kFailed;
}

MachineEnd EndOf(const PodView& pod) {
  const ContainerState& worker = pod.worker;
  MachineEnd end;
  end.agent_ran = worker.kind == ContainerState::Kind::kTerminated;
  end.asked = IsOneOf(pod.reason, kRequests) || !pod.disruption.empty();
  end.asked_for = pod.disruption.empty() ? pod.reason : pod.disruption;
  end.rejected = IsOneOf(pod.reason, kRejections) || pod.reason.starts_with(kOutOf);
  end.misaligned = IsOneOf(pod.reason, kMisalignments);
  // Kubernetes says so only if every container exited with 0.
  if (!end.agent_ran && pod.phase == PodPhase::kSucceeded) {
    end.agent_ran = true;
    end.exit_code = core::kExitSuccess;
    return end;
  }
  if (!end.agent_ran) {
    end.reason = pod.reason;
    end.message = pod.message;
    return end;
  }
  end.exit_code = worker.exit_code;
  end.signal = worker.signal;
  end.termination = worker.message;
  if (worker.reason != "Error" && worker.reason != "Completed") end.reason = worker.reason;
  // Where the kernel ended one rank alone (cgroup v1), the runtime gives the container this reason
  // for whatever end it comes to later.
  end.out_of_memory =
      worker.reason == "OOMKilled" && worker.exit_code == core::kExitSignal + SIGKILL;
  return end;
}

// A container on its way says nothing of interest.
bool IsOnItsWay(std::string_view reason) {
  return reason.empty() || reason == "PodInitializing" || reason == "ContainerCreating";
}

std::optional<StartTrouble> TroubleOf(const PodView& pod) {
  const bool waits = pod.worker.kind == ContainerState::Kind::kWaiting;
  if (waits && !IsOnItsWay(pod.worker.reason)) {
    return StartTrouble{true, pod.worker.reason, pod.worker.message};
  }
  if (IsOnItsWay(pod.init_waiting_reason)) return std::nullopt;
  return StartTrouble{false, pod.init_waiting_reason, pod.init_waiting_message};
}

Stage StageOf(const PodView& pod) {
  if (pod.worker.kind == ContainerState::Kind::kRunning) return Stage::kRunning;
  return pod.scheduled || !pod.node.empty() ? Stage::kPlaced : Stage::kUnplaced;
}

}  // namespace

bool IsOver(const PodView& pod) {
  return pod.worker.kind == ContainerState::Kind::kTerminated || IsTerminal(pod);
}

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
