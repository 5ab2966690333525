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
    if (seen->attempt < draft.memory().assembly.made_in || seen->node.empty()) continue;
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
  const std::optional<Time>& gone = draft.memory().assembly.addresses_gone;
  if (gone && draft.now.boot < *gone + kAddressesGone) return draft.WakeAt(*gone + kAddressesGone);
  if (!snapshot.has_names) draft.Do(MakeNames{});
  if (!coordinator) draft.Do(MakeCoordinatorAddress{machine0});
}

}  // namespace

void RememberAddresses(Draft& draft) {
  const Snapshot& snapshot = draft.snapshot;
  AssemblyMemory& memory = draft.Own<&Memory::assembly>();
  const bool there = snapshot.has_names && snapshot.coordinator_address;
  if (there) {
    memory.had_addresses = true;
    memory.addresses_gone.reset();
  } else if (memory.had_addresses && !memory.addresses_gone) {
    memory.addresses_gone = draft.now.boot;
  }
  draft.decision.nothing_missing = there && snapshot.notes.key_made &&
                                   std::ranges::none_of(draft.machines, [](const Machine& machine) {
                                     return machine.life == Life::kToCreate;
                                   });
}

bool Assemble(Draft& draft) {
  const bool clear = ClearAway(draft);
  const std::optional<Time>& again = draft.memory().placement.start_again;
  if (again && draft.now.boot < *again) {
    draft.WakeAt(*again);
    return false;
  }
  if (!clear) return false;
  core::JobStatus& next = draft.next;
  const core::Spec& spec = draft.spec();
  ++next.epoch;
  next.attempts.Reset(spec.num_machines, next.epoch);
  next.replicas = spec.num_machines;
  next.observed_generation = draft.snapshot.generation;
  draft.Own<&Memory::assembly>().made_in = next.epoch;
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
  if (IsBudgetSpent(draft)) return;  // the job ends, with what it has
  const Snapshot& snapshot = draft.snapshot;
  if (draft.refusal() != nullptr && draft.now.boot < snapshot.notes.make_again) {
    draft.WakeAt(snapshot.notes.make_again);
    return;
  }
  const auto machine0 = static_cast<uint32_t>(snapshot.status.attempts.Of(0));
  if (!snapshot.notes.key_made) draft.Do(MakeKey{});
  MakeAddresses(draft, machine0);
  const bool ready = snapshot.notes.key_made && snapshot.coordinator_address &&
                     !snapshot.coordinator_address->address.empty();
  if (!ready) return;
  for (const Machine& machine : draft.machines) {
    if (machine.life != Life::kToCreate) continue;
    const auto& holds = draft.memory().replacement.hold_until;
    const auto hold = holds.find(machine.index);
    if (hold != holds.end() && draft.now.boot < hold->second) {
      draft.WakeAt(hold->second);
      continue;
    }
    draft.Do(StartMachine{machine.index, machine.attempt,
                          PredecessorsDead(draft.memory().attempts, machine),
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
