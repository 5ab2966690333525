#include "core/gang/diagnosis/progress.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "core/exit_codes.h"
#include "operator/policy/status/status_policies.h"

namespace lockstep::control {
namespace {

constexpr Duration kProgressEvery = seconds(30);
constexpr double kMostEta = 1e15;  // however slow
static_assert(2 + core::kKnownFigures.size() + core::kMaxNamedFigures <= 16,
              "status.progress.metrics takes 16 figures (tools/lib/crd/status.py)");

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

// Text such as 1h10m for people.
std::string Brief(int64_t total_seconds) {
  char text[32];
  if (total_seconds >= 3600) {
    std::snprintf(text, sizeof text, "%" PRId64 "h%" PRId64 "m", total_seconds / 3600,
                  total_seconds % 3600 / 60);
  } else if (total_seconds >= 60) {
    std::snprintf(text, sizeof text, "%" PRId64 "m", total_seconds / 60);
  } else {
    std::snprintf(text, sizeof text, "%" PRId64 "s", total_seconds);
  }
  return text;
}

// The rate is that since the progress last written: no memory is needed for it.
std::optional<int64_t> EtaSeconds(const core::JobProgress& before, const core::JobProgress& after) {
  if (!before.last_updated || after.step <= before.step || after.total_steps <= after.step) {
    return std::nullopt;
  }
  const double elapsed =
      std::chrono::duration<double>(*after.last_updated - *before.last_updated).count();
  const double rate = static_cast<double>(after.step - before.step) / elapsed;
  if (!(rate > 0)) return std::nullopt;
  const double eta = static_cast<double>(after.total_steps - after.step) / rate;
  return static_cast<int64_t>(std::min(eta, kMostEta));
}

// The progress to write now.
core::JobProgress ProgressOf(const ReconcileContext& context, const core::GangProgress& seen) {
  core::JobProgress progress;
  progress.step = std::max<int64_t>(seen.step, 0);
  progress.total_steps = std::max<int64_t>(seen.total_steps, 0);
  progress.last_updated = context.now.wall;
  progress.source = seen.source == core::StepSource::kReports ? "Reports" : "Output";
  if (progress.total_steps > 0) {
    // A program may count on beyond its own total.
    const double share =
        static_cast<double>(progress.step) / static_cast<double>(progress.total_steps);
    progress.percent = static_cast<int32_t>(100 * std::min(share, 1.0));
  }
  for (const core::NamedFigure& figure : core::FiguresOf(seen)) {
    const bool taken = std::ranges::any_of(
        progress.metrics, [&](const auto& metric) { return metric.name == figure.name; });
    if (!taken) progress.metrics.push_back({figure.name, Number(figure.value)});
  }
  return progress;
}

void Set(core::JobStatus& status, core::JobProgress progress) {
  std::string text = std::to_string(progress.step);
  if (progress.total_steps > 0) {
    text +=
        "/" + std::to_string(progress.total_steps) + " " + std::to_string(progress.percent) + "%";
  }
  if (progress.eta_seconds) text += " eta " + Brief(*progress.eta_seconds);
  status.progress_text = text;
  status.progress = std::move(progress);
}

}  // namespace

void ObserveProgress(ReconcileContext& context, const core::GangStatus& gang) {
  const std::optional<core::GangProgress> seen = core::Summarize(gang.progress);
  if (!seen) return;
  const core::JobProgress before = context.snapshot.status.progress.value_or(core::JobProgress{});
  if (before.last_updated) {
    const WallTime next = *before.last_updated + kProgressEvery;
    if (context.now.wall < next) return context.WakeAt(context.now.Boot(next));
  }
  if (before.last_updated && before.step == seen->step) return;
  context.decision.progress_waits = !context.snapshot.may_tell_progress;
  if (context.decision.progress_waits) return;
  core::JobProgress progress = ProgressOf(context, *seen);
  progress.eta_seconds = EtaSeconds(before, progress);
  Set(context.next, std::move(progress));
}

void ConcludeProgress(ReconcileContext& context, const core::Termination* verdict) {
  const std::optional<GangReport>& last = context.snapshot.coordinator;
  std::optional<core::GangProgress> seen =
      last ? core::Summarize(last->status.progress) : std::nullopt;
  if (verdict != nullptr && verdict->progress) {
    // Machine 0 reports the whole gang. Ranks of another machine all came to the same end, so their
    // last step is the gang's.
    const bool of_all = verdict->machine == 0 || !seen;
    if (of_all) {
      seen = verdict->progress;
    } else if (verdict->exit_code == core::kExitSuccess) {
      seen->step = std::max(seen->step, verdict->progress->step);
    }
  }
  if (seen) {
    Set(context.next, ProgressOf(context, *seen));
  } else if (context.next.progress) {
    context.next.progress->eta_seconds.reset();
    Set(context.next, *context.next.progress);
  }
}

}  // namespace lockstep::control
