#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/policy/facts/rules.h"
#include "operator/policy/policies.h"

namespace lockstep::control {
namespace {

using core::Condition;
using core::NodeHealth;

constexpr const char* kCondition = "OnSickNode";
// Until ranks have moved the files of a commit into place.
constexpr Duration kCommitSettle = seconds(1);
constexpr Duration kAskAgain = seconds(30);  // if a pod that was asked to leave is still there
// A machine that has moved stays where it is for so long, so that a place which looks well and is
// not, costs few restarts.
constexpr Duration kMoveAgain = minutes(10);
constexpr int32_t kMostPlaces = 8;

const NodeHealthState::Move* MoveOf(const ReconcileContext& context, uint32_t machine) {
  const auto& moves = context.memory().node_health.moves;
  const auto found = moves.find(machine);
  return found == moves.end() ? nullptr : &found->second;
}

bool IsSick(const Machine& machine) {
  return machine.life == Life::kRunning && !machine.seen->sick.empty() &&
         machine.seen->node_state == NodeState::kWell;
}

// Its last pod was asked to leave, by this policy or a drain, and the next one has no node yet.
bool IsMoving(const ReconcileContext& context, const Machine& machine) {
  if (IsSick(machine) && machine.seen->leave_by) return true;
  const NodeHealthState::Move* move = MoveOf(context, machine.index);
  if (move == nullptr || context.now.boot >= move->asked + kMoveAgain) return false;
  if (machine.seen == nullptr) return true;
  return machine.seen->uid == move->uid || machine.life == Life::kPending;
}

std::vector<const Machine*> MachinesOnSickNodes(const ReconcileContext& context) {
  std::vector<const Machine*> sick;
  if (context.spec().failure_policy.node_health == NodeHealth::kIgnore) return sick;
  for (const Machine& machine : context.machines) {
    if (IsSick(machine)) sick.push_back(&machine);
  }
  return sick;
}

bool IsLeaving(const ReconcileContext& context, const Machine& machine) {
  const NodeHealthState::Move* move = MoveOf(context, machine.index);
  return machine.seen->leave_by || (move != nullptr && machine.seen->uid == move->uid &&
                                    context.now.boot < move->asked + kAskAgain);
}

std::vector<const Machine*> MachinesToMove(ReconcileContext& context) {
  std::vector<const Machine*> sick = MachinesOnSickNodes(context);
  std::erase_if(sick, [&](const Machine* machine) {
    if (IsLeaving(context, *machine)) return true;
    const NodeHealthState::Move* move = MoveOf(context, machine->index);
    return move != nullptr && machine->seen->uid != move->uid &&
           !context.IsDue(move->asked + kMoveAgain);
  });
  return sick;
}

bool IsQueued(const ReconcileContext& context) {
  const std::optional<QueueSeen>& queue = context.snapshot.queue;
  return queue && !queue->name.empty();
}

// Well nodes without a machine of the job. A queue counts each pod, so no spare can try them.
int32_t OtherNodes(const ReconcileContext& context) {
  std::set<std::string> used;
  for (const Machine& machine : context.machines) {
    if (machine.seen != nullptr && machine.seen->sick.empty()) used.insert(machine.seen->node);
  }
  return std::max(
      static_cast<int32_t>(context.snapshot.well_nodes) - static_cast<int32_t>(used.size()), 0);
}

// A job that loses no work waits until the spare's image is there, too.
int32_t PlacesFor(const ReconcileContext& context) {
  if (!Holds(Rule::kMovesNeedAPlace)) return static_cast<int32_t>(context.machines.size());
  if (IsQueued(context)) return OtherNodes(context);
  return FreePlaces(context, context.spec().failure_policy.node_health != NodeHealth::kNow);
}

std::string Where(const Machine& machine) {
  return NameOf(machine) + " on node " + machine.seen->node + ", which " + machine.seen->sick;
}

void Ask(ReconcileContext& context, const Machine& machine) {
  const core::GangStatus* gang = Coordinator(context);
  context.AddAction(StopMachine{machine.seen->name, machine.seen->uid, std::nullopt});
  context.AddEvent(
      false, "MachineMoves",
      NameOf(machine) + " leaves node " + machine.seen->node + ", which " + machine.seen->sick);
  context.StateOf<&PolicyState::node_health>().moves[machine.index] = {
      machine.seen->uid, "node " + machine.seen->node + " " + machine.seen->sick,
      gang == nullptr ? core::Generation{} : gang->generation, context.now.boot};
}

// Whether a checkpoint was committed since machines wait for one, and its files are in place.
bool IsAfterCommit(ReconcileContext& context, const core::GangStatus& gang) {
  auto& awaited = context.StateOf<&PolicyState::node_health>().awaited;
  if (!Holds(Rule::kMovesAwaitACommit)) return true;
  if (!awaited || awaited->attempt != gang.attempt) {
    awaited = {gang.attempt, gang.commits, std::nullopt};
  }
  if (awaited->commits == gang.commits) return false;
  if (!awaited->due) awaited->due = context.now.boot + kCommitSettle;
  return context.IsDue(*awaited->due);
}

// Whether the machines may leave now.
bool IsTheMoment(ReconcileContext& context) {
  const core::GangStatus* gang = Coordinator(context);
  if (gang == nullptr) return false;
  const bool now = context.spec().failure_policy.node_health == NodeHealth::kNow;
  // No rank runs, and none would save.
  if (IsPhase(*gang, core::CoordinatorPhase::kBackoff)) return true;
  if (!IsPhase(*gang, core::CoordinatorPhase::kRunning)) return false;
  return now || IsAfterCommit(context, *gang);
}

struct News {
  const char* reason = "";
  std::string message;
};

constexpr const char* kNoHealthyNode = "NoHealthyNode";
constexpr const char* kAwaitsCheckpoint = "AwaitsCheckpoint";

// Events of one reason are told as one.
std::string EventFor(const News& news) {
  const std::string_view reason = news.reason;
  const bool own = reason == kNoHealthyNode || reason == kAwaitsCheckpoint;
  return own ? news.reason : kCondition;
}

std::string AndOthers(size_t count) {
  return count < 2 ? "" : " (and " + std::to_string(count - 1) + " more)";
}

News Describe(ReconcileContext& context, const std::vector<const Machine*>& sick) {
  const std::string lead = Where(*sick.front()) + AndOthers(sick.size());
  if (PlacesFor(context) == 0) {
    const std::string why = IsQueued(context) ? "no other node is well" : WhyUnplaced(context);
    if (!why.empty()) {
      return {kNoHealthyNode, lead + ", stays there: no other node is free: " + why};
    }
    return {"AwaitsNode", lead + ", moves once a node is ready for it"};
  }
  if (context.spec().failure_policy.node_health == NodeHealth::kNow) {
    return {"AwaitsGang", lead + ", moves when the gang runs"};
  }
  const core::GangStatus* gang = Coordinator(context);
  std::string message = lead + ", moves at the next checkpoint";
  if (gang != nullptr && gang->commits == 0) {
    message += "; none was committed yet (failurePolicy.nodeHealth: Now would move it)";
  }
  return {kAwaitsCheckpoint, std::move(message)};
}

}  // namespace

std::string WhyMoved(const ReconcileContext& context, const Machine& machine) {
  const NodeHealthState::Move* move = MoveOf(context, machine.index);
  const MachineObservation* last = machine.last_seen;
  return move != nullptr && last != nullptr && last->uid == move->uid ? move->why : "";
}

void MoveOffSickNodes(ReconcileContext& context) {
  const std::vector<const Machine*> sick = MachinesToMove(context);
  auto& awaited = context.StateOf<&PolicyState::node_health>().awaited;
  if (sick.empty()) return awaited.reset();
  const int32_t places = std::min(PlacesFor(context), context.snapshot.replacements_allowed);
  const size_t most = std::min(sick.size(), static_cast<size_t>(std::max(places, 0)));
  if (most == 0) return awaited.reset();  // a commit before a node is there moves nothing
  if (!IsTheMoment(context)) return;
  awaited.reset();
  for (size_t i = 0; i < most; ++i) Ask(context, *sick[i]);
}

size_t PlacesForMoves(ReconcileContext& context) {
  const bool ignored = context.spec().failure_policy.node_health == NodeHealth::kIgnore;
  if (ignored || IsQueued(context)) return 0;
  auto wanted = static_cast<int64_t>(MachinesToMove(context).size());
  wanted += std::ranges::count_if(
      context.machines, [&](const Machine& machine) { return IsMoving(context, machine); });
  if (wanted == 0) return 0;
  const int64_t sick = std::ranges::count_if(
      context.snapshot.spares, [](const MachineObservation& spare) { return !spare.sick.empty(); });
  return static_cast<size_t>(std::min<int64_t>(wanted, kMostPlaces) +
                             std::min<int64_t>(sick, kMostPlaces));
}

void ObserveNodeHealth(ReconcileContext& context) {
  const std::vector<const Machine*> sick = MachinesOnSickNodes(context);
  if (sick.empty()) return SetCondition(context, kCondition, false, "NodesAreWell", "");
  std::vector<const Machine*> leaving;
  for (const Machine* machine : sick) {
    if (IsLeaving(context, *machine)) leaving.push_back(machine);
  }
  const std::vector<const Machine*> to_move = MachinesToMove(context);
  News news;
  if (!leaving.empty()) {
    news = {"Moves", Where(*leaving.front()) + AndOthers(leaving.size()) + ", moves"};
  } else if (!to_move.empty()) {
    news = Describe(context, to_move);
  } else {
    news = {"MovedBefore", Where(*sick.front()) + AndOthers(sick.size()) +
                               ", stays there for 10 min, because it has just moved"};
  }
  const Condition* before = core::FindCondition(context.next.conditions, kCondition);
  const bool is_new = before == nullptr || before->status != Condition::Value::kTrue ||
                      before->reason != news.reason;
  // The move has an event of its own.
  if (is_new && leaving.empty()) context.AddEvent(true, EventFor(news), news.message);
  SetCondition(context, kCondition, true, news.reason, std::move(news.message));
}

}  // namespace lockstep::control
