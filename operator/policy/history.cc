#include <algorithm>

#include "operator/policy/policies.h"

namespace lockstep::control {
namespace {

using core::RestartRecord;
using History = std::vector<RestartRecord>;
using GenerationStatus = core::GangStatus::GenerationStatus;

RestartRecord& RecordOf(History& history, core::Generation generation) {
  auto place = std::find_if(history.begin(), history.end(), [&](const RestartRecord& record) {
    return record.generation >= generation;
  });
  if (place == history.end() || place->generation != generation) {
    place = history.insert(place, RestartRecord{});
    place->generation = generation;
  }
  return *place;
}

void RecordEnd(ReconcileContext& context, const GenerationStatus& ended) {
  RestartRecord& record = RecordOf(context.next.history, ended.generation);
  const bool asked = ended.failure.cause == core::Cause::kNone;
  record.cause = asked ? core::Cause::kStopRequested : ended.failure.cause;
  record.machine = ended.failure.machine;
  record.detected = WallOf(context, ended.died ? ended.died : ended.stop_sent);
}

// How a generation came after the one before it, whose machine 0 may have been another.
void RecordSuccessor(ReconcileContext& context, const GenerationStatus& successor) {
  History& history = context.next.history;
  const auto after = std::find_if(history.begin(), history.end(), [&](const RestartRecord& record) {
    return record.generation >= successor.generation;
  });
  if (after == history.begin()) return;
  RestartRecord& record = *std::prev(after);
  record.respawned = WallOf(context, successor.spawned);
  record.first_step = WallOf(context, successor.first_step);
  const auto furthest = context.memory().history.furthest.find(record.generation);
  if (successor.resumed_at > 0 && furthest != context.memory().history.furthest.end()) {
    record.lost_steps = std::max<int64_t>(furthest->second - successor.resumed_at + 1, 0);
  }
}

// The steps that were reached, for as long as history may ask for them.
void RememberSteps(ReconcileContext& context, const core::GangStatus& gang) {
  auto& furthest = context.Own<&Memory::history>().furthest;
  for (const GenerationStatus& each : gang.history) {
    if (each.last_step > 0) furthest[each.generation] = each.last_step;
  }
  for (const core::RankProgress& rank : gang.progress) {
    if (rank.step <= 0) continue;
    int64_t& step = furthest[gang.generation];
    step = std::max(step, rank.step);
  }
  while (furthest.size() > core::kMaxStatusHistory) furthest.erase(furthest.begin());
}

}  // namespace

std::optional<WallTime> WallOf(const ReconcileContext& context,
                               const std::optional<Duration>& since_birth) {
  const std::optional<WallTime>& born = context.machines.front().seen->started;
  if (!born || !since_birth) return std::nullopt;
  return *born + *since_birth;
}

void RecordHistory(ReconcileContext& context, const core::GangStatus& gang) {
  RememberSteps(context, gang);
  for (const GenerationStatus& each : gang.history) {
    const bool all_well = each.failure.cause == core::Cause::kNone && !each.stop_reason;
    if (each.ended && !all_well) RecordEnd(context, each);
    RecordSuccessor(context, each);
  }
}

void RecordLossOfMachine0(ReconcileContext& context, core::Cause cause) {
  const core::Generation generation = context.snapshot.status.gang_generation;
  if (!generation.exists()) return;
  RestartRecord& record = RecordOf(context.next.history, generation);
  if (record.detected) return;  // it had ended before
  record.cause = cause;
  record.machine = 0;
  record.detected = context.now.wall;
}

}  // namespace lockstep::control
