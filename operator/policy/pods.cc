#include <algorithm>
#include <optional>

#include "operator/policy/policies.h"

namespace lockstep::control {
namespace {

using core::Condition;

// Names and an address that were there and are gone went with their job, as a rule, of which
// another watch tells a moment later.
constexpr Duration kAddressesGone = seconds(3);

// Those of a gang that was stopped as a whole did not fail: only attempts since it was made count.
std::vector<std::string> FailedNodes(const Draft& draft, const Machine& machine) {
  std::vector<std::string> nodes;
  for (const MachineObservation* seen : machine.earlier) {
    if (seen->attempt < draft.snapshot.memory.made_in || seen->node.empty()) continue;
    if (std::find(nodes.begin(), nodes.end(), seen->node) == nodes.end()) {
      nodes.push_back(seen->node);
    }
  }
  return nodes;
}

// The job begins, or begins again: its clocks do, too.
void StartClocks(Draft& draft) {
  core::Timings& timings = draft.next.timings;
  const Condition* suspended = core::FindCondition(draft.next.conditions, "Suspended");
  const bool resumed = suspended != nullptr && suspended->status == Condition::Value::kTrue;
  if (!timings.created) timings = {.created = draft.now.wall};
  if (!resumed) return;
  core::SetCondition(draft.next.conditions,
                     {.type = "Suspended",
                      .status = Condition::Value::kFalse,
                      .reason = "Resumed",
                      .message = "spec.suspend is false",
                      .observed_generation = draft.snapshot.generation,
                      .last_transition_time = draft.now.wall},
                     draft.now.wall);
  draft.Tell(false, "Resumed", "spec.suspend is false: the gang is made again");
}

void MakeAddresses(Draft& draft, uint32_t machine0) {
  const Snapshot& snapshot = draft.snapshot;
  const std::optional<CoordinatorAddress>& coordinator = snapshot.coordinator_address;
  if (coordinator && coordinator->attempt != machine0) {
    draft.Do(MoveCoordinatorAddress{coordinator->uid, machine0});
  }
  if (snapshot.has_names && coordinator) return;
  const std::optional<Time>& gone = draft.memory().addresses_gone;
  if (gone && draft.now.boot < *gone + kAddressesGone) return draft.WakeAt(*gone + kAddressesGone);
  if (!snapshot.has_names) draft.Do(MakeNames{});
  if (!coordinator) draft.Do(MakeCoordinatorAddress{machine0});
}

}  // namespace

bool Assemble(Draft& draft) {
  const bool clear = ClearAway(draft);
  std::optional<Time>& again = draft.memory().start_again;
  if (again && draft.now.boot < *again) {
    draft.WakeAt(*again);
    return false;
  }
  if (!clear) return false;
  again.reset();
  core::JobStatus& next = draft.next;
  const core::Spec& spec = draft.spec();
  ++next.epoch;
  next.attempts.Reset(spec.num_machines, next.epoch);
  next.replicas = spec.num_machines;
  next.observed_generation = draft.snapshot.generation;
  draft.memory().made_in = next.epoch;
  draft.memory().scheduled.reset();
  next.state = core::JobState::kPending;
  next.reason = "its pods are being made";
  if (next.agent.image.empty()) next.agent = draft.snapshot.agent;
  next.machine_lost_after =
      std::max(next.machine_lost_after, spec.failure_policy.machine_lost_after);
  StartClocks(draft);
  draft.Intend();
  return true;
}

void MakeMissing(Draft& draft) {
  const Snapshot& snapshot = draft.snapshot;
  if (draft.memory().refusal && draft.now.boot < draft.memory().make_again) {
    draft.WakeAt(draft.memory().make_again);
    return;
  }
  const auto machine0 = static_cast<uint32_t>(snapshot.status.attempts.Of(0));
  if (!draft.memory().key_made) draft.Do(MakeKey{});
  MakeAddresses(draft, machine0);
  const bool ready = draft.memory().key_made && snapshot.coordinator_address &&
                     !snapshot.coordinator_address->address.empty();
  if (!ready) return;
  for (const Machine& machine : draft.machines) {
    if (machine.life != Life::kToCreate) continue;
    const auto hold = draft.memory().hold_until.find(machine.index);
    if (hold != draft.memory().hold_until.end() && draft.now.boot < hold->second) {
      draft.WakeAt(hold->second);
      continue;
    }
    draft.Do(StartMachine{machine.index, machine.attempt, PredecessorsDead(draft.memory(), machine),
                          FailedNodes(draft, machine)});
  }
}

// Of each machine the last attempt that failed is kept for its logs. What still runs is fenced by
// the higher attempt; it gets a second, for its ranks must not save an old state over a new one.
void DeleteStale(Draft& draft) {
  for (const MachineObservation* seen : Leftovers(draft.snapshot)) {
    if (!seen->leave_by) draft.Do(StopMachine{seen->name, seen->uid, 1});
  }
  for (const Machine& machine : draft.machines) {
    const MachineObservation* last = nullptr;
    for (const MachineObservation* seen : machine.earlier) {
      if (seen->over() && (last == nullptr || seen->attempt > last->attempt)) last = seen;
    }
    for (const MachineObservation* seen : machine.earlier) {
      if (seen == last || seen->leave_by) continue;
      draft.Do(StopMachine{seen->name, seen->uid, 1});
    }
  }
}

}  // namespace lockstep::control
