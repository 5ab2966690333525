#include "operator/policy/facts/gang_state.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace lockstep::control {
namespace {

using core::Members;

constexpr Duration kStopSlack = seconds(15);  // beyond the grace period

}  // namespace

bool IsFinished(const core::JobStatus& status) {
  return status.state == core::JobState::kSucceeded || status.state == core::JobState::kFailed;
}

bool TakesPart(const ReconcileContext& context, const Machine& machine) {
  const std::optional<core::ElasticStatus>& elastic = context.snapshot.status.elastic;
  return !elastic || elastic->members.Contains(machine.index);
}

bool IsReady(const Machine& machine) {
  return machine.life == Life::kRunning && machine.seen->ready;
}

bool PodsAreReady(const ReconcileContext& context) {
  const core::MachineCounts& machines = context.next.machines;
  if (context.machines.empty()) return false;
  if (machines.ready == machines.desired) return true;
  return context.snapshot.status.elastic &&
         std::ranges::all_of(context.machines, [&](const Machine& machine) {
           return IsReady(machine) || !TakesPart(context, machine);
         });
}

Duration StopPatience(const ReconcileContext& context) {
  const core::Checkpoint& checkpoint = context.spec().checkpoint;
  const Duration patience = context.spec().grace_period + kStopSlack;
  if (!checkpoint.memory.size) return patience;
  return patience + (checkpoint.url.empty() ? core::kPersistPatience : core::kUploadPatience);
}

bool IsGone(ReconcileContext& context, const MachineObservation& seen) {
  if (seen.over()) return true;
  if (!seen.leave_by) return false;
  return context.IsDue(*seen.leave_by + context.snapshot.status.machine_lost_after);
}

bool HasLeft(ReconcileContext& context) {
  const Snapshot& snapshot = context.snapshot;
  const auto gone = [&](const MachineObservation& seen) { return IsGone(context, seen); };
  return std::all_of(snapshot.machines.begin(), snapshot.machines.end(), gone) &&
         std::all_of(snapshot.spares.begin(), snapshot.spares.end(), gone);
}

bool WaitsAfterRefusal(ReconcileContext& context) {
  const Time again = context.snapshot.notes.make_again;
  return context.refusal() != nullptr && !context.IsDue(again);
}

void NoteSuccessor(ReconcileContext& context, uint32_t machine, bool was_asked) {
  if (!context.next.elastic) return;
  Members& asked = context.next.elastic->asked;
  std::vector<uint32_t> machines(asked.begin(), asked.end());
  std::erase(machines, machine);
  if (was_asked) machines.push_back(machine);
  asked = Members::Of(std::move(machines));
}

void BeginAttempts(ReconcileContext& context, const Members& machines) {
  ++context.next.epoch;
  for (const uint32_t machine : machines) {
    context.next.attempts.Set(static_cast<int>(machine), context.next.epoch);
    NoteSuccessor(context, machine, false);
  }
  context.WriteFirst();
}

}  // namespace lockstep::control
