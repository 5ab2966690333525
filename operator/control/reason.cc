#include <algorithm>

#include "operator/control/policies.h"

namespace lockstep::control {
namespace {

using kube::ContainerState;

std::string Name(const Machine& machine) { return "machine " + std::to_string(machine.index); }

std::string OfRefusal(const Refusal& refusal) {
  switch (refusal.kind) {
    case Refusal::Kind::kNameConflict:
      return refusal.object +
             " exists and is not this job's: delete it, or give the job another "
             "name";
    case Refusal::Kind::kForbidden:
      return refusal.object + " may not be made: " + refusal.message;
    case Refusal::Kind::kInvalid:
      return "the API server does not take " + refusal.object + ": " + refusal.message;
  }
  return "";
}

std::string OfPending(const Draft& draft) {
  const Machine* first = nullptr;
  int count = 0;
  for (const Machine& machine : draft.machines) {
    if (machine.life != Life::kPending) continue;
    ++count;
    if (first == nullptr || first->pod->schedule_message.empty()) first = &machine;
  }
  if (first == nullptr) return "";
  std::string text = std::to_string(count) + " of " + std::to_string(draft.machines.size()) +
                     " machines are not scheduled";
  const std::string& why = first->pod->schedule_message;
  return why.empty() ? text : text + ": " + why;
}

// A container that can't be started says why; one that is on its way says nothing of interest.
std::string OfWaiting(const Draft& draft) {
  for (const Machine& machine : draft.machines) {
    if (machine.life != Life::kWaiting) continue;
    const kube::PodView& pod = *machine.pod;
    const bool worker = pod.worker.kind == ContainerState::Kind::kWaiting &&
                        pod.worker.reason != "PodInitializing" &&
                        pod.worker.reason != "ContainerCreating";
    const std::string& reason = worker ? pod.worker.reason : pod.init_waiting_reason;
    const std::string& message = worker ? pod.worker.message : pod.init_waiting_message;
    if (reason.empty() || reason == "PodInitializing" || reason == "ContainerCreating") continue;
    return Name(machine) + " cannot start on node " + pod.node + ": " + reason +
           (message.empty() ? "" : ": " + message);
  }
  const auto waiting = std::count_if(draft.machines.begin(), draft.machines.end(),
                                     [](const Machine& m) { return m.life == Life::kWaiting; });
  if (waiting == 0) return "";
  return std::to_string(waiting) + " of " + std::to_string(draft.machines.size()) +
         " containers are being created (images, volumes)";
}

std::string OfGone(const Draft& draft) {
  for (const Machine& machine : draft.machines) {
    if (machine.life == Life::kToCreate) {
      const auto& holds = draft.decision.memory.hold_until;
      const auto hold = holds.find(machine.index);
      return hold != holds.end() && draft.now.boot < hold->second
                 ? Name(machine) + " waits before its next attempt, for the last ones ended soon"
                 : "its pods are being made";
    }
  }
  return "";
}

}  // namespace

std::string WhyNotRunning(const Draft& draft) {
  if (draft.snapshot.memory.refusal) return OfRefusal(*draft.snapshot.memory.refusal);
  if (!draft.note.empty()) return draft.note;
  for (auto* look : {OfPending, OfWaiting, OfGone}) {
    if (std::string why = look(draft); !why.empty()) return why;
  }
  const core::GangStatus* status = Coordinator(draft);
  if (status != nullptr) return status->reason;
  if (draft.machines.empty()) return "";
  return "no word yet from the agent of machine 0";
}

}  // namespace lockstep::control
