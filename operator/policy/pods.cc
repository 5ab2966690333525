#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "operator/policy/kube/kube_policies.h"
#include "operator/policy/policies.h"

namespace lockstep::control {
namespace {

using core::Condition;

// The job begins, or begins again, and so do its clocks.
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
  context.AddEvent(false, "Resumed", "spec.suspend is false: the gang is created again");
}

}  // namespace

// Those of a gang that was stopped as a whole did not fail: only attempts since it was made count.
std::vector<std::string> FailedNodes(const ReconcileContext& context, const Machine& machine) {
  // All machines are alike: who would not have one will not have another.
  const std::set<std::string>& refused = context.memory().replacement.refused_by;
  std::vector<std::string> nodes(refused.begin(), refused.end());
  const std::vector<std::string>& sick = context.snapshot.sick_nodes;
  nodes.insert(nodes.end(), sick.begin(), sick.end());
  for (const MachineObservation* seen : machine.earlier) {
    if (seen->attempt < context.memory().assembly.made_in || seen->node.empty()) continue;
    if (std::find(nodes.begin(), nodes.end(), seen->node) == nodes.end()) {
      nodes.push_back(seen->node);
    }
  }
  return nodes;
}

bool Assemble(ReconcileContext& context) {
  const bool clear = ClearAway(context);
  const std::optional<Time>& again = context.memory().placement.start_again;
  if (again && !context.IsDue(*again)) return false;
  if (!clear || !IsPodGroupGone(context)) return false;
  core::JobStatus& next = context.next;
  const core::Spec& spec = context.spec();
  ++next.epoch;
  next.attempts.Reset(spec.num_machines, next.epoch);
  next.replicas = spec.num_machines;
  BeginElastic(context);
  next.pod_group = PodGroupFor(context, next.epoch);
  next.observed_generation = context.snapshot.generation;
  context.StateOf<&PolicyState::assembly>().made_in = next.epoch;
  next.state = core::JobState::kPending;
  next.reason = "its pods are being created";
  if (next.agent.image.empty()) next.agent = context.snapshot.agent;
  next.machine_lost_after =
      std::max(next.machine_lost_after, spec.failure_policy.machine_lost_after);
  StartClocks(context);
  context.WriteFirst();
  return true;
}

void MakeMissing(ReconcileContext& context) {
  if (IsBudgetSpent(context)) return;  // the job ends, with what it has
  if (WaitsAfterRefusal(context)) return;
  const bool key_made = context.snapshot.notes.key_made;
  if (!key_made) context.AddAction(MakeKey{});
  const bool grouped = MakePodGroupFirst(context);
  if (!MakeAddresses(context) || !key_made || !grouped) return;
  const bool may_make = MayMakePods(context.snapshot);
  for (const Machine& machine : context.machines) {
    if (machine.life != Life::kToCreate || StepsAside(context, machine)) continue;
    const auto& holds = context.memory().replacement.hold_until;
    const auto hold = holds.find(machine.index);
    if (hold != holds.end() && !context.IsDue(hold->second)) continue;
    if (!may_make) {
      context.note = WhyNoPods(context);
      return;
    }
    std::optional<std::string> place = PlaceOfSpare(context, machine);
    if (!place) continue;
    context.AddAction(StartMachine{machine.index, machine.attempt,
                                   PredecessorsDead(context.memory().attempts, machine),
                                   FailedNodes(context, machine), std::move(*place)});
  }
}

// The last failed attempt of each machine is kept for its logs.
void DeleteStale(ReconcileContext& context) {
  for (const MachineObservation* seen : Leftovers(context.snapshot)) {
    if (!seen->leave_by) context.AddAction(StopMachine{seen->name, seen->uid, kLeaveSeconds});
  }
  StopReplaced(context);
  for (const Machine& machine : context.machines) {
    const MachineObservation* last = nullptr;
    for (const MachineObservation* seen : machine.earlier) {
      if (seen->over() && (last == nullptr || seen->attempt > last->attempt)) last = seen;
    }
    for (const MachineObservation* seen : machine.earlier) {
      if (seen == last || !seen->over() || seen->leave_by) continue;
      context.AddAction(StopMachine{seen->name, seen->uid, kLeaveSeconds});
    }
  }
}

bool StopReplaced(ReconcileContext& context) {
  bool some = false;
  for (const Machine& machine : context.machines) {
    for (const MachineObservation* seen : machine.earlier) {
      if (seen->over() || seen->leave_by) continue;
      context.AddAction(StopMachine{seen->name, seen->uid, kLeaveSeconds});
      some = true;
    }
  }
  return some;
}

}  // namespace lockstep::control
