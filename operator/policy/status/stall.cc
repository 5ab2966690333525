#include <algorithm>
#include <string>
#include <utility>

#include "base/text/duration.h"
#include "core/gang/diagnosis/progress.h"
#include "core/text/limited_text.h"
#include "operator/policy/status/status_policies.h"

namespace lockstep::control {
namespace {

using core::Condition;

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
  auto& memory = context.StateOf<&PolicyState::stall>();
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

std::string WhatFollows(const core::Spec& spec, core::StepSource source, bool quiet) {
  if (spec.health.hang_timeout > Duration::zero() && Counts(spec, source)) {
    return "the gang restarts at spec.health.hangTimeout";
  }
  if (spec.health.hang_action == core::HangAction::kRestart) {
    return "the gang restarts if no rank works for 10 min or longer";
  }
  if (quiet) return "spec.health.hangAction: Restart would restart the gang";
  return Counts(spec, source)
             ? "spec.health.hangTimeout would restart the gang"
             : "spec.health.hangTimeout with spec.progress.from: Output would restart the gang";
}

// "no step since step 5 for 60 s, and no rank works: …".
std::string Describe(const core::Spec& spec, const core::GangStatus& gang) {
  const core::SuspectedHang& hang = *gang.hang;
  const bool quiet = hang.activity == core::GangActivity::kQuiet;
  std::string message =
      "no step since step " + std::to_string(hang.step) + " for " + InWords(hang.limit);
  if (quiet) message += ", and no rank works";
  if (hang.activity == core::GangActivity::kAllWork) message += ", and all ranks work";
  if (!hang.who.empty()) message += ", and " + core::OneLine(hang.who);
  message += ": a hang is suspected; ";
  message += hang.places.empty() ? "`lockstep debug` shows where its ranks stand"
                                 : core::OneLine(hang.places);
  const std::optional<core::GangProgress> progress = core::Summarize(gang.progress);
  const core::StepSource source = progress ? progress->source : core::StepSource::kReports;
  return message + "; " + WhatFollows(spec, source, quiet);
}

}  // namespace

void ObserveStall(ReconcileContext& context) {
  const core::GangStatus* gang = Coordinator(context);
  const bool running = context.next.state == core::JobState::kRunning;
  if (!running) return SetCondition(context, "HangSuspected", false, "NoStepIsAwaited", "");
  if (gang == nullptr) return;
  ObserveUnwatched(context, *gang);
  if (gang->hang) {
    const std::string message = Describe(context.spec(), *gang);
    const Condition* before = core::FindCondition(context.next.conditions, "HangSuspected");
    const bool said = before != nullptr && before->status == Condition::Value::kTrue;
    if (said && before->message == message) return;
    context.AddEvent(true, "HangSuspected", message);
    return PutCondition(context, "HangSuspected", Condition::Value::kTrue, "NoProgress", message);
  }
  if (SaysUnused(context)) return;
  SetCondition(context, "HangSuspected", false,
               gang->progress.empty() ? "NoStepIsAwaited" : "Progresses", "");
}

}  // namespace lockstep::control
