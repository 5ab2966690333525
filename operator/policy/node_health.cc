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
// A sign that is younger may pass. `Now` is for notices of seconds, and does not wait.
constexpr Duration kSignAge = seconds(30);
// After machines have moved, all stay where they are for so long, doubled with each time of late,
// so that a place which looks well and is not, or a sign that comes and goes, costs few restarts.
constexpr Duration kMoveAgain = minutes(10);
constexpr Duration kLate = hours(6);
constexpr int kMostDoublings = 4;
constexpr int32_t kMostPlaces = 8;

bool MovesNow(const ReconcileContext& context) {
  return context.spec().failure_policy.node_health == NodeHealth::kNow;
}

// Its checkpoints are nowhere else.
bool IsInMemoryOnly(const core::Checkpoint& checkpoint) {
  return checkpoint.memory.size && checkpoint.path.empty() && checkpoint.url.empty();
}

bool HasClaims(const core::Spec& spec) {
  if (!spec.checkpoint.claim.empty()) return true;
  const core::Node* volumes = spec.template_.Walk({"spec", "volumes"});
  return volumes != nullptr && std::ranges::any_of(volumes->items(), [](const core::Node& volume) {
           return volume.Find("persistentVolumeClaim") != nullptr;
         });
}

const NodeHealthState::Move* MoveOf(const ReconcileContext& context, uint32_t machine) {
  const auto& moves = context.memory().node_health.moves;
  const auto found = moves.find(machine);
  return found == moves.end() ? nullptr : &found->second;
}

bool HasSign(const Machine& machine) {
  return machine.life == Life::kRunning && !machine.seen->sick.empty() &&
         machine.seen->node_state == NodeState::kWell;
}

bool IsSick(const ReconcileContext& context, const Machine& machine) {
  if (!HasSign(machine)) return false;
  return MovesNow(context) || context.now.boot >= machine.seen->sick_since + kSignAge;
}

// Its last pod was asked to leave, by this policy or a drain, and the next one has no node yet.
bool IsMoving(const ReconcileContext& context, const Machine& machine) {
  if (IsSick(context, machine) && machine.seen->leave_by) return true;
  const NodeHealthState::Move* move = MoveOf(context, machine.index);
  if (move == nullptr || context.now.boot >= move->asked + kMoveAgain) return false;
  if (machine.seen == nullptr) return true;
  return machine.seen->uid == move->uid || machine.life == Life::kPending;
}

bool IgnoresNodes(const ReconcileContext& context) {
  return context.spec().failure_policy.node_health == NodeHealth::kIgnore &&
         Holds(Rule::kMovesAsPolicySays);
}

std::vector<const Machine*> MachinesOnSickNodes(const ReconcileContext& context) {
  std::vector<const Machine*> sick;
  if (IgnoresNodes(context)) return sick;
  for (const Machine& machine : context.machines) {
    if (IsSick(context, machine)) sick.push_back(&machine);
  }
  return sick;
}

bool IsLeaving(const ReconcileContext& context, const Machine& machine) {
  const NodeHealthState::Move* move = MoveOf(context, machine.index);
  return machine.seen->leave_by || (move != nullptr && machine.seen->uid == move->uid &&
                                    context.now.boot < move->asked + kAskAgain);
}

// When machines may move again, after those that have moved of late. An operator that has just
// started knows them from status.history.
std::optional<Time> MovesAgainAt(const ReconcileContext& context) {
  std::optional<Time> last;
  int rounds = 0;
  for (const core::RestartRecord& record : context.snapshot.status.history) {
    if (!record.detected || record.reason.find(kMovedOffNode) == std::string::npos) continue;
    const Time at = context.now.Boot(*record.detected);
    if (at + kLate < context.now.boot) continue;
    last = std::max(last.value_or(at), at);
    ++rounds;
  }
  for (const auto& [machine, move] : context.memory().node_health.moves) {
    if (last && move.asked <= *last) continue;
    if (!last || move.asked > *last + kCommitSettle) ++rounds;
    last = move.asked;
  }
  if (!last) return std::nullopt;
  return *last + kMoveAgain * (1 << std::min(rounds - 1, kMostDoublings));
}

std::vector<const Machine*> MachinesToMove(ReconcileContext& context) {
  std::vector<const Machine*> sick = MachinesOnSickNodes(context);
  const std::optional<Time> again = sick.empty() ? std::nullopt : MovesAgainAt(context);
  std::erase_if(sick, [&](const Machine* machine) {
    if (IsLeaving(context, *machine)) return true;
    const NodeHealthState::Move* move = MoveOf(context, machine->index);
    if (move != nullptr && machine->seen->uid == move->uid) return false;  // it did not leave
    return again && !context.IsDue(*again);
  });
  return sick;
}

bool IsQueued(const ReconcileContext& context) {
  const std::optional<QueueSeen>& queue = context.snapshot.queue;
  return queue && !queue->name.empty() && queue->queues != Queues::kAbsent;
}

// With AtCheckpoint, a program that never commits would keep a node for nothing.
bool AwaitsFirstCommit(const ReconcileContext& context) {
  const core::GangStatus* gang = Coordinator(context);
  return !MovesNow(context) && Holds(Rule::kMovesAwaitACommit) && gang != nullptr &&
         gang->commits == 0;
}

// Why no machine moves, however many nodes are free; "": they may.
std::string WhyAllStay(const ReconcileContext& context) {
  const core::Checkpoint& checkpoint = context.spec().checkpoint;
  const bool has_copies = checkpoint.memory.replicas > 0 && context.machines.size() > 1;
  if (IsInMemoryOnly(checkpoint) && !has_copies) {
    return "the checkpoints in its memory have no copy (set checkpoint.path or url)";
  }
  if (!MovesNow(context) && HasClaims(context.spec()) && NodesInUse(context) < 2) {
    return "its volumes may not be usable on another node; a drain or failurePolicy.nodeHealth: "
           "Now moves it";
  }
  return "";
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
  if (!WhyAllStay(context).empty()) return 0;
  const int32_t places = FreePlaces(context, !MovesNow(context));
  // Who writes Now accepts that the other node may lack room.
  return IsQueued(context) && MovesNow(context) ? std::max(places, OtherNodes(context)) : places;
}

// The next machine has the copies of a machine's checkpoints in memory, so they leave one by one.
int32_t MostAtOnce(const ReconcileContext& context) {
  return context.spec().checkpoint.memory.size ? 1 : kMostPlaces;
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

// Whether a checkpoint was committed since machines wait for one, and its files are in place. Of
// one in memory alone, the copies have been made when the next is committed.
bool IsAfterCommit(ReconcileContext& context, const core::GangStatus& gang) {
  auto& awaited = context.StateOf<&PolicyState::node_health>().awaited;
  if (!Holds(Rule::kMovesAwaitACommit)) return true;
  if (!awaited || awaited->attempt != gang.attempt) {
    awaited = {gang.attempt, gang.commits, std::nullopt};
  }
  const uint64_t wanted = IsInMemoryOnly(context.spec().checkpoint) ? 2 : 1;
  if (gang.commits < awaited->commits + wanted) return false;
  if (!awaited->due) awaited->due = context.now.boot + kCommitSettle;
  return context.IsDue(*awaited->due);
}

// Whether the machines may leave now.
bool IsTheMoment(ReconcileContext& context) {
  const core::GangStatus* gang = Coordinator(context);
  if (gang == nullptr) return false;
  const bool now = MovesNow(context);
  // No rank runs, and none would save.
  if (IsPhase(*gang, core::CoordinatorPhase::kBackoff)) {
    return now || !IsInMemoryOnly(context.spec().checkpoint);
  }
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
  if (const std::string why = WhyAllStay(context); !why.empty()) {
    return {"Stays", lead + ", stays there: " + why};
  }
  if (AwaitsFirstCommit(context)) {
    return {kAwaitsCheckpoint, lead +
                                   ", moves at a later checkpoint; none was committed yet "
                                   "(failurePolicy.nodeHealth: Now would move it)"};
  }
  if (PlacesFor(context) == 0) {
    if (IsQueued(context) && !MovesNow(context)) {
      return {kNoHealthyNode,
              lead +
                  ", stays there: the job's queue counts each pod, so that only a spare machine "
                  "of the job can hold a node for it; a drain moves it"};
    }
    const std::string why = IsQueued(context) ? "no other node is well" : WhyUnplaced(context);
    if (!why.empty()) {
      return {kNoHealthyNode, lead + ", stays there: no other node is free: " + why};
    }
    return {"AwaitsNode", lead + ", moves once a node is ready for it"};
  }
  if (MovesNow(context)) return {"AwaitsGang", lead + ", moves when the gang runs"};
  return {kAwaitsCheckpoint, lead + ", moves at the next checkpoint"};
}

}  // namespace

std::string WhyMoved(const ReconcileContext& context, const Machine& machine) {
  const NodeHealthState::Move* move = MoveOf(context, machine.index);
  const MachineObservation* last = machine.last_seen;
  return move != nullptr && last != nullptr && last->uid == move->uid ? move->why : "";
}

int32_t NodesInUse(const ReconcileContext& context) {
  std::set<std::string> nodes;
  for (const Machine& machine : context.machines) {
    if (machine.life == Life::kRunning) nodes.insert(machine.seen->node);
  }
  return static_cast<int32_t>(nodes.size());
}

void MoveOffSickNodes(ReconcileContext& context) {
  for (const Machine& machine : context.machines) {
    if (HasSign(machine) && !IsSick(context, machine)) {
      context.WakeAt(machine.seen->sick_since + kSignAge);
    }
  }
  const std::vector<const Machine*> sick = MachinesToMove(context);
  auto& awaited = context.StateOf<&PolicyState::node_health>().awaited;
  if (sick.empty()) return awaited.reset();
  const auto leaving = static_cast<int32_t>(
      std::ranges::count_if(MachinesOnSickNodes(context),
                            [&](const Machine* machine) { return IsLeaving(context, *machine); }));
  // Those that leave need their places.
  const int32_t places =
      std::min({PlacesFor(context) - leaving, context.snapshot.replacements_allowed,
                MostAtOnce(context) - leaving});
  const size_t most = std::min(sick.size(), static_cast<size_t>(std::max(places, 0)));
  if (most == 0) return awaited.reset();  // a commit before a node is there moves nothing
  if (!IsTheMoment(context)) return;
  awaited.reset();
  for (size_t i = 0; i < most; ++i) Ask(context, *sick[i]);
}

size_t PlacesForMoves(ReconcileContext& context) {
  if (IgnoresNodes(context) || IsQueued(context)) return 0;
  int64_t wanted = 0;
  if (WhyAllStay(context).empty() && !AwaitsFirstCommit(context)) {
    wanted = std::min<int64_t>(std::ssize(MachinesToMove(context)), MostAtOnce(context));
  }
  // What is there stays while machine 0 is silent.
  if (Coordinator(context) == nullptr) {
    wanted = std::min<int64_t>(wanted, std::ssize(context.snapshot.spares));
  }
  wanted += std::ranges::count_if(
      context.machines, [&](const Machine& machine) { return IsMoving(context, machine); });
  if (wanted == 0) return 0;
  const int64_t sick = std::ranges::count_if(
      context.snapshot.spares, [](const MachineObservation& spare) { return !spare.sick.empty(); });
  return static_cast<size_t>(std::min<int64_t>(wanted, kMostPlaces) +
                             std::min<int64_t>(sick, kMostPlaces));
}

void ObserveNodeHealth(ReconcileContext& context) {
  if (IgnoresNodes(context)) {
    return SetCondition(context, kCondition, false, "Ignored", "");
  }
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
                               ", stays there for now, because machines have just moved"};
  }
  const Condition* before = core::FindCondition(context.next.conditions, kCondition);
  const bool is_new = before == nullptr || before->status != Condition::Value::kTrue ||
                      before->reason != news.reason;
  // The move has an event of its own.
  if (is_new && leaving.empty()) context.AddEvent(true, EventFor(news), news.message);
  SetCondition(context, kCondition, true, news.reason, std::move(news.message));
}

}  // namespace lockstep::control
