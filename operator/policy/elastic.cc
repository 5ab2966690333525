// Which machines take part where spec.elastic lets some be left out: those that have a node, once
// another has found none for long enough; and more again at a checkpoint, when they are back.
// Machine 0, which leads the gang, is never left out: another gives it its node.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/text/duration.h"
#include "operator/policy/facts/rules.h"
#include "operator/policy/kube/kube_policies.h"
#include "operator/policy/policies.h"

namespace lockstep::control {
namespace {

using core::ElasticStatus;
using core::Members;

// For a node that came free to be given to machine 0, before another is asked to give way.
constexpr Duration kSchedulerPatience = seconds(10);
// For a pod to be gone once its time to leave is over.
constexpr Duration kClearingPatience = seconds(2);

// It waits for a node, or has one where nothing will start.
bool LacksNode(const Machine& machine) {
  return machine.life == Life::kPending || machine.sent_to_its_dead;
}

bool HasNode(const Machine& machine) {
  return machine.life == Life::kRunning || (machine.life == Life::kWaiting && !LacksNode(machine));
}

// Its agent is known to machine 0, and fit to run ranks.
bool MayJoin(const ReconcileContext& context, const Machine& machine) {
  const core::GangStatus* gang = Coordinator(context);
  if (gang == nullptr || machine.life != Life::kRunning) return false;
  const core::GangStatus::MachineStatus* told = ReportOf(*gang, machine);
  return told != nullptr && told->connected && !told->replace &&
         told->state != core::GangMachineState::kLost &&
         told->state != core::GangMachineState::kDraining;
}

std::vector<uint32_t> ThoseWhoMayJoin(const ReconcileContext& context) {
  std::vector<uint32_t> machines;
  for (const Machine& machine : context.machines) {
    if (!TakesPart(context, machine) && MayJoin(context, machine))
      machines.push_back(machine.index);
  }
  return machines;
}

// "machine 3", "machines 3,5-6".
std::string Machines(const Members& machines) {
  return (machines.size() == 1 ? "machine " : "machines ") + machines.ToString();
}

struct Size {
  Members members;
  std::string reason;
  std::vector<uint32_t> give_way;  // whose pods go, so that machine 0 finds a node, or another one
};

// When the others continue without this machine, which waits for a node: after shrinkAfter. At
// once, if it was asked to leave, because its ranks have saved their state and the scheduler has
// found no node.
WallTime LeftOutAt(const ReconcileContext& context, const Machine& machine) {
  const bool asked = context.snapshot.status.elastic->asked.Contains(machine.index) &&
                     !machine.seen->unplaced_because.empty();
  const core::Elastic elastic = context.spec().elastic.value_or(core::Elastic{});
  return machine.seen->created + (asked ? Duration::zero() : elastic.shrink_after);
}

// A pod of the machine is leaving and frees its node.
bool LeavesANode(ReconcileContext& context, const Machine& machine) {
  return std::ranges::any_of(machine.earlier, [&](const MachineObservation* seen) {
    const bool leaves =
        !seen->over() && seen->stage != Stage::kUnplaced && seen->node_state == NodeState::kWell;
    return leaves && (!seen->leave_by || !context.IsDue(*seen->leave_by + kClearingPatience));
  });
}

// Machine 0 gets the node of the highest machine that has one, best of one that is left out
// already. Whoever else waits for a node steps aside until it has one.
std::optional<Size> SmallerFromMachine0(ReconcileContext& context) {
  const Machine& machine0 = context.machines.front();
  const std::optional<WallTime>& since = context.snapshot.status.elastic->since;
  WallTime due = LeftOutAt(context, machine0);
  // Another has given way already.
  if (since && *since > machine0.seen->created) due = std::max(due, *since + kSchedulerPatience);
  const bool comes_free = std::ranges::any_of(
      context.machines, [&](const Machine& machine) { return LeavesANode(context, machine); });
  if (machine0.seen->place_is_its_own || !context.IsDue(due) || comes_free) return std::nullopt;
  Size size;
  if (machine0.life != Life::kPending) size.give_way.push_back(0);
  std::vector<uint32_t> there = {0};
  std::optional<uint32_t> giver;
  for (const Machine& machine : context.machines) {
    if (machine.index == 0) continue;
    if (machine.life == Life::kPending) size.give_way.push_back(machine.index);
    if (!HasNode(machine)) continue;
    if (TakesPart(context, machine)) {
      there.push_back(machine.index);
    } else if (machine.seen->node_state == NodeState::kWell) {
      giver = machine.index;
    }
  }
  if (!giver) {
    giver = there.back();
    there.pop_back();
  }
  const int32_t fewer = core::LargestSize(context.spec(), static_cast<int32_t>(there.size()));
  if (*giver == 0 || fewer == 0) return std::nullopt;
  size.give_way.push_back(*giver);
  there.resize(static_cast<size_t>(fewer));
  size.members = Members::Of(std::move(there));
  size.reason =
      "machine 0 found no node, so it takes the node of machine " + std::to_string(*giver);
  return size;
}

// Those that wait for a node are left out once it is time to for one of them.
std::optional<Size> Smaller(ReconcileContext& context) {
  if (LacksNode(context.machines.front())) return SmallerFromMachine0(context);
  bool due = false;
  std::vector<uint32_t> without;
  std::vector<uint32_t> there;
  for (const Machine& machine : context.machines) {
    if (!TakesPart(context, machine)) continue;
    if (HasNode(machine)) there.push_back(machine.index);
    if (!LacksNode(machine)) continue;
    without.push_back(machine.index);
    due |= context.IsDue(LeftOutAt(context, machine));
  }
  if (!due || there.empty() || there.front() != 0) return std::nullopt;
  const std::vector<uint32_t> others = ThoseWhoMayJoin(context);
  there.insert(there.end(), others.begin(), others.end());
  const int32_t size = core::LargestSize(context.spec(), static_cast<int32_t>(there.size()));
  if (size == 0) return std::nullopt;
  there.resize(static_cast<size_t>(size));
  return Size{Members::Of(std::move(there)),
              Machines(Members::Of(std::move(without))) + " found no node",
              {}};
}

// A gang that runs with all its machines. New machines join at the next checkpoint.
std::optional<Size> Larger(ReconcileContext& context) {
  const ElasticStatus& present = *context.snapshot.status.elastic;
  const core::GangStatus* gang = Coordinator(context);
  if (gang == nullptr || !IsPhase(*gang, core::CoordinatorPhase::kRunning)) return std::nullopt;
  std::vector<uint32_t> others = ThoseWhoMayJoin(context);
  const auto all = static_cast<int32_t>(present.members.size() + others.size());
  const int32_t size = core::LargestSize(context.spec(), all);
  if (size <= static_cast<int32_t>(present.members.size())) return std::nullopt;
  const core::Elastic elastic = context.spec().elastic.value_or(core::Elastic{});
  const WallTime due = present.since.value_or(context.now.wall) + elastic.grow_after;
  if (!context.IsDue(due)) return std::nullopt;
  others.resize(static_cast<size_t>(size) - present.members.size());
  std::string reason = Machines(Members::Of(others)) + " can take part again";
  others.insert(others.end(), present.members.begin(), present.members.end());
  return Size{Members::Of(std::move(others)), std::move(reason), {}};
}

// Those who take part: in the generation that runs, where a larger one waits for its commit.
const Members& Present(const ReconcileContext& context) {
  const Members& decided = context.next.elastic->members;
  const core::GangStatus* gang = Coordinator(context);
  if (gang == nullptr || gang->history.empty() || !IsPhase(*gang, core::CoordinatorPhase::kRunning))
    return decided;
  const Members& running = gang->history.back().members;
  return running.empty() || running.size() >= decided.size() ? decided : running;
}

}  // namespace

bool StepsAside(ReconcileContext& context, const Machine& machine) {
  if (machine.index == 0) {
    return std::ranges::any_of(context.machines, [&](const Machine& giver) {
      return !TakesPart(context, giver) && LeavesANode(context, giver);
    });
  }
  return !TakesPart(context, machine) && !HasNode(context.machines.front());
}

bool GoesOnWithFewer(const ReconcileContext& context) {
  if (!context.snapshot.status.elastic) return false;
  const Machine& machine0 = context.machines.front();
  if (!HasNode(machine0) && (machine0.seen == nullptr || machine0.seen->place_is_its_own)) {
    return false;
  }
  const auto placed = std::ranges::count_if(context.machines, [&](const Machine& machine) {
    return TakesPart(context, machine) && HasNode(machine);
  });
  return core::LargestSize(context.spec(), static_cast<int32_t>(placed)) > 0;
}

void BeginElastic(ReconcileContext& context) {
  std::optional<ElasticStatus>& elastic = context.next.elastic;
  const auto machines = static_cast<uint32_t>(context.spec().num_machines);
  if (!context.spec().elastic) return elastic.reset();
  // Ranks of the previous gang may be alive, even if none is observed.
  const Members witnesses = elastic ? elastic->witnesses : Members::All(machines);
  elastic.emplace();
  elastic->members = Members::All(machines);
  elastic->witnesses = witnesses.And(elastic->members);
  elastic->since = context.now.wall;
}

bool Resize(ReconcileContext& context) {
  if (!context.snapshot.status.elastic) return false;
  std::optional<Size> size = Smaller(context);
  const bool smaller = size.has_value();
  if (!smaller) size = Larger(context);
  ElasticStatus& elastic = *context.next.elastic;
  if (!size || (size->members == elastic.members && size->give_way.empty())) return false;
  const Members witnesses = elastic.witnesses.And(size->members);
  elastic.members = std::move(size->members);
  elastic.witnesses = Holds(Rule::kWitnessesStay) ? witnesses : elastic.members;
  elastic.since = context.now.wall;
  elastic.reason = std::move(size->reason);
  BeginAttempts(context, Members::Of(std::move(size->give_way)));
  context.AddEvent(smaller, smaller ? "GangShrunk" : "GangGrown",
                   "the gang is made of " + std::to_string(elastic.members.size()) + " of " +
                       std::to_string(context.machines.size()) + " machines (" +
                       elastic.members.ToString() + ")" +
                       (smaller ? "" : " from its next checkpoint on") + ": " + elastic.reason);
  return true;
}

void ObserveElastic(ReconcileContext& context) {
  if (!context.next.elastic) return;
  ElasticStatus& elastic = *context.next.elastic;
  std::vector<uint32_t> asked(elastic.asked.begin(), elastic.asked.end());
  std::erase_if(asked, [&](uint32_t machine) {
    return machine < context.machines.size() && HasNode(context.machines[machine]);
  });
  elastic.asked = Members::Of(std::move(asked));
  // Machine 0 has begun a generation since it knows them, so no rank of an earlier one is alive.
  const core::GangStatus* gang = Coordinator(context);
  if (gang != nullptr && gang->epoch == context.snapshot.status.epoch && !gang->history.empty() &&
      gang->history.back().members == elastic.members) {
    elastic.witnesses = elastic.members;
  }
  const bool shrunk = Present(context).size() < context.machines.size();
  // An operator that has just started hears in a moment whether a larger gang waits for a commit.
  const bool runs = context.snapshot.status.state == core::JobState::kRunning;
  if (!shrunk && gang == nullptr && runs) return;
  const char* why = elastic.members.size() > Present(context).size() ? "WaitsForCommit"
                    : !shrunk                                        ? "AllTakePart"
                    : WhyNoGrowth(context).empty()                   ? "MachinesLeftOut"
                                                                     : "WaitsForQueue";
  SetCondition(context, "Shrunk", shrunk, why, ElasticReason(context));
}

std::string ElasticReason(const ReconcileContext& context) {
  const std::optional<ElasticStatus>& elastic = context.next.elastic;
  if (!elastic) return "";
  const Members& present = Present(context);
  if (present.size() >= context.machines.size()) return "";
  const std::string growth = WhyNoGrowth(context);
  return std::to_string(present.size()) + " of " + std::to_string(context.machines.size()) +
         " machines take part (" + present.ToString() + "): " + elastic->reason +
         (present.size() < elastic->members.size() ? " once the program commits a checkpoint"
                                                   : "") +
         (growth.empty() ? "" : "; " + growth);
}

}  // namespace lockstep::control
