#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/backoff.h"
#include "core/failure/failure.h"
#include "operator/policy/facts/rules.h"
#include "operator/policy/kube/kube_policies.h"
#include "operator/policy/policies.h"

namespace lockstep::control {
namespace {

constexpr Duration kLeavePatience = seconds(5);  // for a spare to be gone from its node
constexpr Duration kPlacePatience = seconds(5);  // for a machine to find a node by itself
constexpr Duration kShortLife = seconds(60);     // a spare that lived less waits before the next
constexpr Duration kFirstRetry = milliseconds(500);  // after one that could not be made
constexpr Duration kLastRetry = seconds(60);
constexpr int kNames = 8;  // tried one after the other, where none can be made

bool IsThere(const MachineObservation& spare) {
  return !spare.over() && !spare.leave_by && spare.node_state == NodeState::kWell;
}

bool IsReadySpare(const MachineObservation& spare) {
  return IsThere(spare) && spare.stage == Stage::kRunning && spare.ready;
}

bool IsPlaced(const Machine& machine) {
  return machine.life == Life::kWaiting || machine.life == Life::kRunning;
}

const MachineObservation* Find(const ReconcileContext& context, const std::string& uid) {
  for (const MachineObservation& spare : context.snapshot.spares) {
    if (spare.uid == uid) return &spare;
  }
  return nullptr;
}

// The ready before those that are on their way, those without a node, and those on sick nodes.
std::vector<const MachineObservation*> BestFirst(const ReconcileContext& context) {
  std::vector<const MachineObservation*> spares;
  for (const MachineObservation& spare : context.snapshot.spares) {
    if (IsThere(spare)) spares.push_back(&spare);
  }
  std::ranges::sort(spares, [](const MachineObservation* a, const MachineObservation* b) {
    const auto rank = [](const MachineObservation& spare) {
      if (!spare.sick.empty()) return 3;
      return IsReadySpare(spare) ? 0 : spare.stage != Stage::kUnplaced ? 1 : 2;
    };
    return std::pair(rank(*a), a->spare) < std::pair(rank(*b), b->spare);
  });
  return spares;
}

// Nobody's failure: it is asked to leave, and that it ends is not counted.
void Release(ReconcileContext& context, const MachineObservation& spare) {
  context.StateOf<&PolicyState::spares>().known.erase(spare.uid);
  context.AddAction(StopMachine{spare.name, spare.uid, kLeaveSeconds});
}

bool IsTaken(const SparesState& memory, const std::string& uid) {
  return std::ranges::any_of(memory.places,
                             [&](const auto& each) { return each.second.uid == uid; });
}

// First the spares that an earlier operator had asked to leave, for this machine or for no one.
std::vector<const MachineObservation*> BestPlaces(const ReconcileContext& context) {
  std::vector<const MachineObservation*> places;
  for (const MachineObservation& spare : context.snapshot.spares) {
    const bool well = spare.node_state == NodeState::kWell;
    if (well && context.memory().spares.released.contains(spare.uid)) places.push_back(&spare);
  }
  const std::vector<const MachineObservation*> there = BestFirst(context);
  places.insert(places.end(), there.begin(), there.end());
  return places;
}

// The best spare leaves its node to this machine. Null: no spare's node fits.
const SparesState::Place* Take(ReconcileContext& context, const Machine& machine) {
  SparesState& memory = context.StateOf<&PolicyState::spares>();
  const std::vector<std::string> failed = FailedNodes(context, machine);
  for (const MachineObservation* spare : BestPlaces(context)) {
    if (spare->stage == Stage::kUnplaced || IsTaken(memory, spare->uid)) continue;
    if (!spare->sick.empty()) continue;
    if (std::ranges::find(failed, spare->node) != failed.end()) continue;
    context.AddEvent(false, "SpareTaken",
                     NameOf(machine) + " gets node " + spare->node + ", where " + spare->name +
                         " has kept its place");
    const SparesState::Place place{spare->uid, spare->node, context.now.boot + kLeavePatience};
    return &(memory.places[{machine.index, machine.attempt}] = place);
  }
  return nullptr;
}

// That it was preempted, evicted or deleted, or could not live where it was.
void CountEnd(ReconcileContext& context, WallTime made) {
  SparesState& memory = context.StateOf<&PolicyState::spares>();
  memory.quick_ends = context.now.wall - made < kShortLife ? memory.quick_ends + 1 : 0;
  memory.make_again =
      std::max(memory.make_again, context.now.boot + core::BackoffAfter(memory.quick_ends));
}

// A machine without a node takes the node of a spare. Then spares without a node leave, so that
// they do not compete with machines for nodes.
void MakeRoom(ReconcileContext& context) {
  const SparesState& memory = context.memory().spares;
  for (const Machine& machine : context.machines) {
    if (machine.life != Life::kPending) continue;
    if (memory.places.contains({machine.index, machine.attempt})) continue;
    if (context.IsDue(machine.seen->created + kPlacePatience)) Take(context, machine);
  }
  if (std::ranges::all_of(context.machines, IsPlaced)) return;
  for (const MachineObservation* spare : BestFirst(context)) {
    if (spare->stage == Stage::kUnplaced) Release(context, *spare);
  }
}

// As many spares as requested, or as machines that are to move need, but at most the number that
// was queued.
size_t MostSpares(ReconcileContext& context) {
  int64_t most = std::max<int64_t>(context.spec().spare_machines,
                                   static_cast<int64_t>(PlacesForMoves(context)));
  if (const std::optional<QueueSeen>& queue = context.snapshot.queue; queue && queue->workload) {
    const int64_t queued = queue->workload->count - MachinesThatHoldQuota(context);
    most = std::min(most, std::max<int64_t>(queued, 0));
  }
  return static_cast<size_t>(most);
}

void Make(ReconcileContext& context, size_t missing) {
  SparesState& memory = context.StateOf<&PolicyState::spares>();
  if (!context.IsDue(memory.make_again)) return;
  std::set<int32_t> numbers;  // one that leaves has its name until it is gone
  for (const MachineObservation& spare : context.snapshot.spares) numbers.insert(spare.spare);
  std::set<std::string> avoid = context.memory().replacement.refused_by;
  avoid.insert(memory.refused_by.begin(), memory.refused_by.end());
  avoid.insert(context.snapshot.sick_nodes.begin(), context.snapshot.sick_nodes.end());
  // A name that was asked for in vain may be a stranger's.
  for (int32_t number = memory.tries % kNames; missing > 0; ++number) {
    if (numbers.contains(number)) continue;
    // A claim that several nodes use may have one user more.
    context.AddAction(StartSpare{.number = static_cast<uint32_t>(number),
                                 .avoid_nodes = {avoid.begin(), avoid.end()},
                                 .claims = NodesInUse(context) > 1});
    --missing;
  }
  memory.make_again = context.now.boot + DoubledPause(kFirstRetry, kLastRetry, memory.tries++);
  context.WakeAt(memory.make_again);
}

std::string WhyRefused(const ReconcileContext& context) {
  const std::optional<Refusal>& refusal = context.snapshot.notes.spare_refusal;
  if (!refusal) return "";
  if (refusal->kind == Refusal::Kind::kNameConflict) {
    return refusal->object + " does not belong to this job; the operator tries another name";
  }
  return refusal->object + " may not be created: " + refusal->message;
}

}  // namespace

void RememberSpares(ReconcileContext& context) {
  SparesState& memory = context.StateOf<&PolicyState::spares>();
  const bool first = !std::exchange(memory.begun, true);
  for (const MachineObservation& spare : context.snapshot.spares) {
    if (first && spare.leave_by) memory.released.insert(spare.uid);
    if (spare.end && spare.end->rejected) memory.refused_by.insert(spare.node);
    if (!IsThere(spare) || IsTaken(memory, spare.uid)) continue;
    if (!memory.known.emplace(spare.uid, spare.created).second) continue;
    if (memory.tries > 0) memory.make_again = Time{};
    memory.tries = 0;
  }
  std::erase_if(memory.known, [&](const auto& each) {
    const MachineObservation* spare = Find(context, each.first);
    if (spare != nullptr && IsThere(*spare)) return false;
    CountEnd(context, each.second);
    return true;
  });
  std::erase_if(memory.places, [&](const auto& each) {
    const auto& [machine, attempt] = each.first;
    return context.snapshot.status.attempts.Of(static_cast<int>(machine)) != attempt;
  });
}

std::optional<std::string> PlaceOfSpare(ReconcileContext& context, const Machine& machine) {
  const auto& places = context.memory().spares.places;
  const auto found = places.find({machine.index, machine.attempt});
  const SparesState::Place* place = found != places.end() ? &found->second : Take(context, machine);
  if (place == nullptr) return "";
  const MachineObservation* spare = Find(context, place->uid);
  if (spare == nullptr || spare->all_ended) return place->node;
  if (context.now.boot >= place->until && Holds(Rule::kSparesAreNotAwaited)) return "";
  context.note = NameOf(machine) + " waits for " + spare->name + " to leave node " + place->node;
  if (context.now.boot < place->until) context.WakeAt(place->until);
  return std::nullopt;
}

void KeepSpares(ReconcileContext& context, bool wanted) {
  const bool none = !wanted || context.machines.empty() || IsBudgetSpent(context);
  const size_t most = none && Holds(Rule::kSparesLeaveAtTheEnd) ? 0 : MostSpares(context);
  if (most > 0) MakeRoom(context);
  for (const MachineObservation& spare : context.snapshot.spares) {
    const bool goes = !IsThere(spare) || IsTaken(context.memory().spares, spare.uid);
    if (goes && !spare.leave_by) Release(context, spare);
  }
  std::vector<const MachineObservation*> spares = BestFirst(context);
  std::erase_if(spares, [&](const MachineObservation* spare) {
    return !context.memory().spares.known.contains(spare->uid);  // it is on its way out
  });
  for (; spares.size() > most; spares.pop_back()) Release(context, *spares.back());
  const bool placed = !context.machines.empty() && std::ranges::all_of(context.machines, IsPlaced);
  if (spares.size() < most && placed && MayMakePods(context.snapshot)) {
    Make(context, most - spares.size());
  }
}

int32_t ReadySpares(const ReconcileContext& context) {
  return static_cast<int32_t>(std::ranges::count_if(context.snapshot.spares, IsReadySpare));
}

int32_t FreePlaces(const ReconcileContext& context, bool ready) {
  return static_cast<int32_t>(
      std::ranges::count_if(context.snapshot.spares, [&](const MachineObservation& spare) {
        const bool placed = ready ? IsReadySpare(spare) : spare.stage != Stage::kUnplaced;
        return IsThere(spare) && placed && spare.sick.empty() &&
               !IsTaken(context.memory().spares, spare.uid);
      }));
}

std::string WhyUnplaced(const ReconcileContext& context) {
  for (const MachineObservation& spare : context.snapshot.spares) {
    if (IsThere(spare) && spare.stage == Stage::kUnplaced && !spare.unplaced_because.empty()) {
      return spare.unplaced_because;
    }
  }
  return WhyRefused(context);
}

std::string WhyFewerSpares(ReconcileContext& context) {
  const int32_t wanted = context.spec().spare_machines;
  if (ReadySpares(context) >= wanted) return "";
  const std::string of_them = " of " + std::to_string(wanted) + " spare machines ";
  std::string why;
  int32_t unplaced = 0;
  for (const MachineObservation& spare : context.snapshot.spares) {
    if (!IsThere(spare) || spare.stage != Stage::kUnplaced) continue;
    ++unplaced;
    if (why.empty()) why = spare.unplaced_because;
  }
  if (unplaced > 0) {
    return std::to_string(unplaced) + of_them + "found no node" + (why.empty() ? "" : ": " + why);
  }
  return WhyRefused(context);
}

}  // namespace lockstep::control
