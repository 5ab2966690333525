#include <algorithm>
#include <string>
#include <utility>

#include "base/text/duration.h"
#include "core/gang/progress.h"
#include "operator/policy/policies.h"

namespace lockstep::control {
namespace {

using core::Condition;

// Without hangTimeout: a silence of so many times the longest one between two reports of this
// generation, and of a minute at least. A program that reports each hundredth step is as regular as
// one that reports each step.
constexpr int kGaps = 3;
constexpr Duration kShortest = minutes(1);
constexpr int kEnoughGaps = 2;
constexpr Duration kNearest = seconds(5);  // with hangTimeout: reports come about once a second
// A gap during which no report came for so long may hold steps that nobody saw.
constexpr Duration kUnheard = seconds(15);

std::optional<Duration> Limit(const ReconcileContext& context, const Pace& pace) {
  const Duration hang_timeout = context.spec().health.hang_timeout;
  std::optional<Duration> limit;
  if (pace.gaps >= kEnoughGaps) limit = std::max(pace.longest_gap * kGaps, kShortest);
  if (hang_timeout <= Duration::zero()) return limit;
  const Duration half = std::max<Duration>(hang_timeout / 2, kNearest);
  return limit ? std::min(*limit, half) : half;
}

// Counted between reports: that none comes is no evidence.
void Follow(std::optional<Pace>& pace, const GangReport& report, int64_t step) {
  const core::Generation generation = report.status.generation;
  if (!pace || pace->generation != generation || step < pace->step) {
    pace = Pace{generation, step, report.at, report.at};
    return;
  }
  if (report.at - pace->heard_at > kUnheard) pace->unheard = true;
  pace->heard_at = report.at;
  if (step == pace->step) return;
  if (!pace->unheard) {
    pace->longest_gap = std::max<Duration>(pace->longest_gap, report.at - pace->moved_at);
    ++pace->gaps;
  }
  pace->moved = true;
  pace->unheard = false;
  pace->step = step;
  pace->moved_at = report.at;
}

bool SaysUnused(const ReconcileContext& context) {
  const Condition* said = core::FindCondition(context.next.conditions, "HangSuspected");
  return said != nullptr && said->reason == "HangTimeoutUnused";
}

// Whether hangTimeout counts steps of this source.
bool Counts(const core::Spec& spec, core::StepSource source) {
  return source == core::StepSource::kReports || spec.progress.from == core::ProgressFrom::kOutput;
}

// What to do for hangTimeout to have an effect.
std::string WhyUnwatched(const core::Spec& spec, const core::GangStatus& gang) {
  if (spec.progress.from == core::ProgressFrom::kOutput) {
    return "no progress was found in the output; write a pattern in spec.progress.patterns "
           "(`lockstep plan --try-log FILE` tries it)";
  }
  if (!gang.progress.empty()) {
    return "steps are read from the output, and no process reports them; write "
           "spec.progress.from: Output to count them";
  }
  return "no process has called lockstep.report(); call it, or write spec.progress.from: Output";
}

// hangTimeout watches ranks whose progress it knows. That it watches none is said once, when it
// would have ended the generation.
void ObserveUnwatched(ReconcileContext& context, const core::GangStatus& gang) {
  const core::Spec& spec = context.spec();
  const Duration hang_timeout = spec.health.hang_timeout;
  auto& memory = context.Own<&Memory::stall>();
  const bool watches = hang_timeout <= Duration::zero() ||
                       std::ranges::any_of(gang.progress, [&spec](const core::RankProgress& rank) {
                         return Counts(spec, rank.source);
                       });
  if (watches && SaysUnused(context)) {
    SetCondition(context, "HangSuspected", false, "Progresses", "");
  }
  if (watches || memory.said_unwatched) return memory.unwatched.reset();
  if (!memory.unwatched || memory.unwatched->first != gang.generation) {
    memory.unwatched = {gang.generation, context.now.boot};
  }
  if (!context.IsDue(memory.unwatched->second + hang_timeout)) return;
  memory.said_unwatched = true;
  const std::string message = "spec.health.hangTimeout (" + FormatDuration(hang_timeout) +
                              ") has no effect: " + WhyUnwatched(spec, gang);
  context.AddEvent(true, "HangTimeoutUnused", message);
  PutCondition(context, "HangSuspected", Condition::Value::kFalse, "HangTimeoutUnused", message);
}

std::string InWords(Duration duration) {
  const auto count = std::max<int64_t>(duration / seconds(1), 1);
  return count < 120 ? std::to_string(count) + " s" : std::to_string(count / 60) + " min";
}

std::string WhatFollows(const core::Spec& spec, core::StepSource source) {
  if (spec.health.hang_timeout > Duration::zero() && Counts(spec, source)) {
    return "the gang restarts at spec.health.hangTimeout";
  }
  return Counts(spec, source)
             ? "spec.health.hangTimeout would restart the gang"
             : "spec.health.hangTimeout with spec.progress.from: Output would restart the gang";
}

}  // namespace

void ObserveStall(ReconcileContext& context) {
  std::optional<Pace>& pace = context.Own<&Memory::stall>().pace;
  const core::GangStatus* gang = Coordinator(context);
  if (gang == nullptr && context.next.state == core::JobState::kRunning) return;
  std::optional<core::GangProgress> progress;
  if (gang != nullptr && context.next.state == core::JobState::kRunning) {
    progress = core::Summarize(gang->progress);
  }
  const bool at_the_end =
      progress && progress->total_steps > 0 && progress->step >= progress->total_steps;
  const bool running = gang != nullptr && context.next.state == core::JobState::kRunning;
  if (running) ObserveUnwatched(context, *gang);
  if (!progress || progress->step <= 0 || at_the_end) {
    pace.reset();
    if (running && !at_the_end && SaysUnused(context)) return;
    return SetCondition(context, "HangSuspected", false, "NoStepIsAwaited", "");
  }
  const bool known = pace.has_value();
  Follow(pace, *context.snapshot.coordinator, progress->step);
  const Duration still = context.snapshot.coordinator->at - pace->moved_at;
  const std::optional<Duration> limit = Limit(context, *pace);
  if (limit && still >= *limit) {
    const Condition* before = core::FindCondition(context.next.conditions, "HangSuspected");
    if (before != nullptr && before->status == Condition::Value::kTrue) return;
    const std::string message =
        "no step since step " + std::to_string(pace->step) + " for " + InWords(*limit) +
        ": a hang is suspected; `lockstep debug` shows where its ranks stand, and " +
        WhatFollows(context.spec(), progress->source);
    context.AddEvent(true, "HangSuspected", message);
    return SetCondition(context, "HangSuspected", true, "NoProgress", message);
  }
  // An operator that has just begun to look does not know that it goes on.
  const bool same = known || pace->generation == context.snapshot.status.gang_generation;
  if (SaysUnused(context)) return;
  if (pace->moved || !same) SetCondition(context, "HangSuspected", false, "Progresses", "");
}

}  // namespace lockstep::control
