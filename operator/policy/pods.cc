#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "operator/policy/policies.h"

namespace lockstep::control {
namespace {

using core::Condition;

// Names and an address that were there and are gone went with their job, as a rule, of which
// another watch tells a moment later.
constexpr Duration kAddressesGone = seconds(3);

// The job begins, or begins again: its clocks do, too.
void StartClocks(ReconcileContext& context) {
  core::Timings& timings = context.next.timings;
  const Condition* suspended = core::FindCondition(context.next.conditions, "Suspended");
  const bool resumed = suspended != nullptr && suspended->status == Condition::Value::kTrue;
  if (!timings.created) timings = {.created = context.now.wall};
  if (!resumed) return;
  core::SetCondition(context.next.conditions,
                     {.type = "Suspended",
                      .status = Condition::Value::kFalse,
                      .reason = "Resumed",
                      .message = "spec.suspend is false",
                      .observed_generation = context.snapshot.generation,
                      .last_transition_time = context.now.wall},
                     context.now.wall);
  context.AddEvent(false, "Resumed", "spec.suspend is false: the gang is made again");
}

void MakeAddresses(ReconcileContext& context, uint32_t machine0) {
  const Snapshot& snapshot = context.snapshot;
  const std::optional<CoordinatorAddress>& coordinator = snapshot.coordinator_address;
  if (coordinator && coordinator->attempt != machine0) {
    context.Do(MoveCoordinatorAddress{coordinator->uid, machine0});
  }
  if (snapshot.has_names && coordinator) return;
  const std::optional<Time>& gone = context.memory().assembly.addresses_gone;
  if (gone && context.now.boot < *gone + kAddressesGone)
    return context.WakeAt(*gone + kAddressesGone);
  if (!snapshot.has_names) context.Do(MakeNames{});
  if (!coordinator) context.Do(MakeCoordinatorAddress{machine0});
}

}  // namespace

// Those of a gang that was stopped as a whole did not fail: only attempts since it was made count.
std::vector<std::string> FailedNodes(const ReconcileContext& context, const Machine& machine) {
  // All machines are alike: who would not have one will not have another.
  const std::set<std::string>& refused = context.memory().replacement.refused_by;
  std::vector<std::string> nodes(refused.begin(), refused.end());
  for (const MachineObservation* seen : machine.earlier) {
    if (seen->attempt < context.memory().assembly.made_in || seen->node.empty()) continue;
    if (std::find(nodes.begin(), nodes.end(), seen->node) == nodes.end()) {
      nodes.push_back(seen->node);
    }
  }
  return nodes;
}

void RememberAddresses(ReconcileContext& context) {
  const Snapshot& snapshot = context.snapshot;
  AssemblyMemory& memory = context.Own<&Memory::assembly>();
  const bool there = snapshot.has_names && snapshot.coordinator_address;
  if (there) {
    memory.had_addresses = true;
    memory.addresses_gone.reset();
  } else if (memory.had_addresses && !memory.addresses_gone) {
    memory.addresses_gone = context.now.boot;
  }
  context.decision.nothing_missing =
      there && snapshot.notes.key_made &&
      std::ranges::none_of(context.machines,
                           [](const Machine& machine) { return machine.life == Life::kToCreate; });
}

bool Assemble(ReconcileContext& context) {
  const bool clear = ClearAway(context);
  const std::optional<Time>& again = context.memory().placement.start_again;
  if (again && context.now.boot < *again) {
    context.WakeAt(*again);
    return false;
  }
  if (!clear) return false;
  core::JobStatus& next = context.next;
  const core::Spec& spec = context.spec();
  ++next.epoch;
  next.attempts.Reset(spec.num_machines, next.epoch);
  next.replicas = spec.num_machines;
  next.observed_generation = context.snapshot.generation;
  context.Own<&Memory::assembly>().made_in = next.epoch;
  next.state = core::JobState::kPending;
  next.reason = "its pods are being made";
  if (next.agent.image.empty()) next.agent = context.snapshot.agent;
  next.machine_lost_after =
      std::max(next.machine_lost_after, spec.failure_policy.machine_lost_after);
  StartClocks(context);
  context.Intend();
  return true;
}

void MakeMissing(ReconcileContext& context) {
  if (IsBudgetSpent(context)) return;  // the job ends, with what it has
  const Snapshot& snapshot = context.snapshot;
  if (context.refusal() != nullptr && context.now.boot < snapshot.notes.make_again) {
    context.WakeAt(snapshot.notes.make_again);
    return;
  }
  const auto machine0 = static_cast<uint32_t>(snapshot.status.attempts.Of(0));
  if (!snapshot.notes.key_made) context.Do(MakeKey{});
  MakeAddresses(context, machine0);
  const bool ready = snapshot.notes.key_made && snapshot.coordinator_address &&
                     !snapshot.coordinator_address->address.empty();
  if (!ready) return;
  for (const Machine& machine : context.machines) {
    if (machine.life != Life::kToCreate) continue;
    const auto& holds = context.memory().replacement.hold_until;
    const auto hold = holds.find(machine.index);
    if (hold != holds.end() && context.now.boot < hold->second) {
      context.WakeAt(hold->second);
      continue;
    }
    std::optional<std::string> place = PlaceOfSpare(context, machine);
    if (!place) continue;
    context.Do(StartMachine{machine.index, machine.attempt,
                            PredecessorsDead(context.memory().attempts, machine),
                            FailedNodes(context, machine), std::move(*place)});
  }
}

// Of each machine the last attempt that failed is kept for its logs. What still runs is fenced by
// the higher attempt; it gets a second, for its ranks must not save an old state over a new one.
void DeleteStale(ReconcileContext& context) {
  for (const MachineObservation* seen : Leftovers(context.snapshot)) {
    if (!seen->leave_by) context.Do(StopMachine{seen->name, seen->uid, 1});
  }
  for (const Machine& machine : context.machines) {
    const MachineObservation* last = nullptr;
    for (const MachineObservation* seen : machine.earlier) {
      if (seen->over() && (last == nullptr || seen->attempt > last->attempt)) last = seen;
    }
    for (const MachineObservation* seen : machine.earlier) {
      if (seen == last || seen->leave_by) continue;
      context.Do(StopMachine{seen->name, seen->uid, 1});
    }
  }
}

}  // namespace lockstep::control
