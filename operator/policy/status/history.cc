#include <algorithm>
#include <iterator>

#include "operator/policy/status/status_policies.h"

namespace lockstep::control {
namespace {

using core::Counters;
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

// An intent is written as it is.
void KeepNewest(History& history) {
  const auto most = static_cast<std::ptrdiff_t>(core::kMaxStatusHistory);
  if (std::ssize(history) > most) history.erase(history.begin(), history.end() - most);
}

// Why machines were asked to leave the generation; "": they were not, or by no policy of ours.
std::string MovesOf(const ReconcileContext& context, core::Generation generation) {
  std::string reasons;
  for (const auto& [machine, move] : context.memory().node_health.moves) {
    if (move.generation != generation) continue;
    reasons += (reasons.empty() ? "machine " : "; machine ") + std::to_string(machine) +
               " moved: " + move.why;
  }
  return reasons;
}

void RecordEnd(ReconcileContext& context, const GenerationStatus& ended) {
  RestartRecord& record = RecordOf(context.next.history, ended.generation);
  const bool asked = ended.failure.cause == core::Cause::kNone;
  record.cause = asked ? core::Cause::kStopRequested : ended.failure.cause;
  record.machine = ended.failure.machine;
  record.code = ended.code;
  if (ended.stop_reason == core::StopReason::kRestarted) record.reason = ended.failure.message;
  if (ended.stop_reason == core::StopReason::kDraining && record.reason.empty()) {
    record.reason = MovesOf(context, ended.generation);
  }
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
  auto& furthest = context.StateOf<&PolicyState::history>().furthest;
  for (const GenerationStatus& each : gang.history) {
    if (each.last_step > 0) furthest[each.generation] = each.last_step;
  }
  for (const core::RankProgress& rank : gang.progress) {
    if (rank.step <= 0 || rank.source == core::StepSource::kEpochs) continue;
    int64_t& step = furthest[gang.generation];
    step = std::max(step, rank.step);
  }
  while (furthest.size() > core::kMaxStatusHistory) furthest.erase(furthest.begin());
}

}  // namespace

std::optional<WallTime> WallOf(const ReconcileContext& context,
                               const std::optional<Duration>& since_birth) {
  const std::optional<WallTime>& born = context.machines.front().last_seen->started;
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
  KeepNewest(context.next.history);
}

const core::GangStatus* LastReport(const ReconcileContext& context) {
  const std::optional<GangReport>& report = context.snapshot.coordinator;
  if (!report || context.machines.empty()) return nullptr;
  const Machine& machine0 = context.machines.front();
  const bool current = machine0.last_seen != nullptr && report->status.attempt == machine0.attempt;
  return current ? &report->status : nullptr;
}

std::vector<GenerationStatus> LastGenerations(const ReconcileContext& context) {
  std::vector<GenerationStatus> known;
  if (context.machines.empty() || context.machines.front().last_seen == nullptr) return known;
  if (const core::GangStatus* report = LastReport(context)) known = report->history;
  const uint32_t machine0_attempt = context.machines.front().attempt;
  for (const Machine& machine : context.machines) {
    const MachineObservation* last = machine.last_seen;
    if (last == nullptr || !last->over()) continue;
    Result<core::Termination> message = core::ParseTermination(last->end->termination);
    if (!message.ok()) continue;
    // Times of an earlier machine 0 are since that one's birth.
    std::erase_if(message->ended, [&](const GenerationStatus& each) {
      return each.generation.attempt != machine0_attempt;
    });
    core::AddEnded(known, message->ended);
    if (!message->ended.empty()) break;  // the others were told the same
  }
  return known;
}

void RecordLastReport(ReconcileContext& context) {
  core::GangStatus last;
  if (const core::GangStatus* report = LastReport(context)) last = *report;
  context.next.counters.Merge(last.counters);
  last.history = LastGenerations(context);
  RecordHistory(context, last);
}

void RecordVerdict(ReconcileContext& context, core::Generation generation,
                   const core::Failure& failure) {
  if (!generation.exists()) return;
  RestartRecord& record = RecordOf(context.next.history, generation);
  if (record.cause != core::Cause::kNone) return;  // its coordinator has reported its end
  record.cause = failure.cause;
  record.machine = failure.machine;
  record.detected = context.now.wall;
  KeepNewest(context.next.history);
}

void CountRestarts(ReconcileContext& context) {
  core::JobStatus& next = context.next;
  next.counters.Saturate();  // what an older operator took may stand there
  Counters before = context.snapshot.status.counters;
  before.Saturate();
  const Counters& now = next.counters;
  const auto grown = [&](auto... counters) {
    return (int64_t{0} + ... + (int64_t{now.*counters} - before.*counters));
  };
  core::RestartCounts& restarts = next.restarts;
  const int64_t counted = int64_t{restarts.total} - before.alone;
  int64_t news = std::max<int64_t>(int64_t{now.generations} - 1 - counted, 0);
  const auto count = [&](core::CauseClass kind, int64_t most) {
    const auto made = static_cast<int32_t>(std::clamp<int64_t>(most, 0, news));
    news -= made;
    switch (kind) {
      case core::CauseClass::kApplication:
        restarts.application += made;
        break;
      case core::CauseClass::kStopped:
        restarts.stopped += made;
        break;
      case core::CauseClass::kInfrastructure:
      case core::CauseClass::kNone:
        restarts.infrastructure += made;
        break;
    }
  };
  for (auto record = next.history.rbegin(); record != next.history.rend(); ++record) {
    if (record->generation < next.gang_generation) count(core::ClassOf(record->cause), 1);
  }
  // Generations without a report.
  count(core::CauseClass::kApplication,
        grown(&Counters::process_failures, &Counters::out_of_memory));
  count(core::CauseClass::kStopped, grown(&Counters::stops));
  count(core::CauseClass::kInfrastructure, news);
  restarts.application += static_cast<int32_t>(grown(&Counters::alone));
  restarts.total = restarts.application + restarts.infrastructure + restarts.stopped;
}

void RecordLossOfMachine0(ReconcileContext& context, core::Cause cause) {
  const core::Generation generation = context.snapshot.status.gang_generation;
  if (!generation.exists()) return;
  RestartRecord& record = RecordOf(context.next.history, generation);
  if (record.detected) return;  // it had ended before
  record.cause = cause;
  record.machine = 0;
  if (cause == core::Cause::kStopRequested) record.reason = MovesOf(context, generation);
  record.detected = context.now.wall;
}

}  // namespace lockstep::control
