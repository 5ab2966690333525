#include "operator/policy/machines.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>

#include "core/exit_codes.h"
#include "operator/policy/rules.h"

namespace lockstep::control {
namespace {

using kube::ContainerState;
using kube::PodPhase;
using kube::PodView;

bool NodeIsGone(const Snapshot& snapshot, const PodView& pod) {
  if (pod.node.empty()) return false;
  const auto node = snapshot.nodes.find(pod.node);
  if (node == snapshot.nodes.end()) return false;  // nodes are not watched
  return node->second == nullptr || node->second->out_of_service;
}

Life LifeOf(const Snapshot& snapshot, const Machine& machine) {
  if (machine.attempt == 0) return Life::kNone;
  if (machine.pod == nullptr) {
    const bool made = machine.attempt <= snapshot.status.created_epoch ||
                      snapshot.memory.existed.contains({machine.index, machine.attempt});
    return made ? Life::kGone : Life::kToCreate;
  }
  const PodView& pod = *machine.pod;
  if (IsOver(pod)) return Life::kEnded;
  if (NodeIsGone(snapshot, pod)) return Life::kGone;
  if (pod.worker.kind == ContainerState::Kind::kRunning) return Life::kRunning;
  return pod.scheduled || !pod.node.empty() ? Life::kWaiting : Life::kPending;
}

bool IsOneOf(std::string_view text, const auto& names) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

// Kubelet's refusals of a pod that the scheduler had sent it.
constexpr auto kRejections = std::to_array<std::string_view>(
    {"TopologyAffinityError", "SMTAlignmentError", "UnexpectedAdmissionError", "NodeAffinity",
     "OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfephemeral-storage"});
// The pod was asked to leave by the cluster, which is nobody's failure.
constexpr auto kRequests = std::to_array<std::string_view>(
    {"Evicted", "Preempted", "Preempting", "Shutdown", "NodeShutdown", "Terminated"});

std::string Where(const PodView& pod) { return pod.node.empty() ? "" : " on node " + pod.node; }

std::string HowItEnded(const ContainerState& worker) {
  if (worker.signal > 0) return "was killed by signal " + std::to_string(worker.signal);
  std::string text = "exited with code " + std::to_string(worker.exit_code);
  if (!worker.reason.empty() && worker.reason != "Error" && worker.reason != "Completed") {
    text += " (" + worker.reason + ")";
  }
  return text;
}

End EndOfPod(const Snapshot& snapshot, const Machine& machine) {
  const PodView& pod = *machine.last_seen;
  End end;
  if (pod.worker.kind != ContainerState::Kind::kTerminated) {
    end.what = "its pod failed" + Where(pod);
    if (!pod.reason.empty()) end.what += ": " + pod.reason;
    if (!pod.message.empty()) end.what += ": " + pod.message;
    if (IsOneOf(pod.reason, kRejections)) end.kind = EndKind::kRejected;
    if (IsOneOf(pod.reason, kRequests) || !pod.disruption.empty()) end.kind = EndKind::kAsked;
    return end;
  }
  const ContainerState& worker = pod.worker;
  end.what = "its agent " + HowItEnded(worker) + Where(pod);
  if (Result<core::Termination> message = core::ParseTermination(worker.message); message.ok()) {
    end.message = std::move(*message);
  }
  const auto machine0 = static_cast<uint32_t>(snapshot.status.attempts.Of(0));
  if (end.message && core::VerdictCounts(*end.message, machine.attempt, machine0)) {
    end.kind = EndKind::kVerdict;
  } else if (WasOutOfMemory(worker)) {
    end.kind = EndKind::kOutOfMemory;
    end.what = "its container went over its memory limit" + Where(pod);
  } else if (IsOneOf(pod.reason, kRequests) || !pod.disruption.empty() ||
             worker.exit_code == core::kExitStopped) {
    end.kind = EndKind::kAsked;
    end.what = "its pod was asked to leave" + Where(pod);
    const std::string& why = pod.disruption.empty() ? pod.reason : pod.disruption;
    if (!why.empty()) end.what += " (" + why + ")";
  } else if (end.message && end.message->verdict) {
    end.kind = EndKind::kAsked;
    end.what = "its agent left with a verdict that no longer counts" + Where(pod);
  } else if (worker.exit_code == core::kExitConfiguration) {
    end.kind = EndKind::kConfiguration;
    if (!worker.message.empty() && !end.message) end.what += ": " + worker.message;
  }
  return end;
}

}  // namespace

bool WasOutOfMemory(const ContainerState& worker) {
  return worker.reason == "OOMKilled" && worker.exit_code == core::kExitSignal + SIGKILL;
}

bool IsOver(const PodView& pod) {
  return pod.worker.kind == ContainerState::Kind::kTerminated || pod.phase == PodPhase::kFailed ||
         pod.phase == PodPhase::kSucceeded;
}

std::vector<Machine> Machines(const Snapshot& snapshot) {
  const core::MachineAttempts& attempts = snapshot.status.attempts;
  std::vector<Machine> machines(static_cast<size_t>(attempts.size()));
  for (size_t i = 0; i < machines.size(); ++i) {
    machines[i].index = static_cast<uint32_t>(i);
    machines[i].attempt = attempts.Of(static_cast<int>(i));
  }
  for (const PodView* pod : snapshot.pods) {
    if (pod->machine < 0 || static_cast<size_t>(pod->machine) >= machines.size()) continue;
    Machine& machine = machines[static_cast<size_t>(pod->machine)];
    if (pod->attempt == machine.attempt) {
      machine.pod = pod;
    } else if (pod->attempt < machine.attempt) {
      machine.earlier.push_back(pod);
    }
  }
  for (Machine& machine : machines) {
    machine.life = LifeOf(snapshot, machine);
    machine.last_seen = machine.pod;
    const auto vanished = snapshot.memory.vanished.find({machine.index, machine.attempt});
    if (machine.pod == nullptr && vanished != snapshot.memory.vanished.end()) {
      machine.last_seen = &vanished->second;
    }
  }
  return machines;
}

std::vector<const PodView*> Leftovers(const Snapshot& snapshot) {
  std::vector<const PodView*> leftovers;
  for (const PodView* pod : snapshot.pods) {
    // The pods' cache may be ahead of the job's, after another leader's decisions.
    if (pod->attempt > snapshot.status.epoch) continue;
    if (pod->machine < 0 || pod->machine >= snapshot.status.attempts.size()) {
      leftovers.push_back(pod);
    }
  }
  return leftovers;
}

bool PredecessorsDead(const Memory& memory, const Machine& machine) {
  if (machine.attempt <= 1 || !Holds(Rule::kPredecessorsSeenDead)) return true;
  if (!memory.from_the_beginning) return false;
  const auto is_over = [&](const Incarnation& each) {
    return each.first != machine.index || each.second >= machine.attempt ||
           memory.ended.contains(each);
  };
  return std::all_of(memory.existed.begin(), memory.existed.end(), is_over) &&
         std::all_of(memory.recorded.begin(), memory.recorded.end(), is_over);
}

End EndOf(const Snapshot& snapshot, const Machine& machine) {
  End end;
  if (machine.last_seen != nullptr && IsOver(*machine.last_seen)) {
    end = EndOfPod(snapshot, machine);
  } else if (machine.pod == nullptr) {
    end.what = "its pod was deleted";
  } else {
    const auto node = snapshot.nodes.find(machine.pod->node);
    const bool gone = node == snapshot.nodes.end() || node->second == nullptr;
    end.what = "its node " + machine.pod->node + (gone ? " is gone" : " is out of service");
  }
  // Who deletes a pod and gives it time to leave asks for nothing else.
  const bool asked = machine.pod == nullptr && machine.last_seen != nullptr &&
                     machine.last_seen->meta.deleted.has_value();
  if (asked && end.kind == EndKind::kLost) end.kind = EndKind::kAsked;
  return end;
}

}  // namespace lockstep::control
