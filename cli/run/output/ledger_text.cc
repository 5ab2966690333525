#include "cli/run/output/ledger_text.h"

#include <algorithm>
#include <utility>

#include "cli/run/output/history.h"

namespace lockstep::cli {
namespace {

using core::Activity;

// Below it start and end are most of a run's time, and say nothing about the next run.
constexpr Duration kShortest = minutes(1);

const char* NameOf(Activity activity) {
  switch (activity) {
    case Activity::kProductive:
      return "productive";
    case Activity::kUnknown:
      return "unknown";
    case Activity::kWaitingForNodes:
      return "waiting for nodes";
    case Activity::kWaitingForMachines:
      return "waiting for machines";
    case Activity::kSpawn:
      return "spawn";
    case Activity::kStartUp:
      return "start-up";
    case Activity::kWarmStartUp:
      return "warm start-up";
    case Activity::kCheckpointLoad:
      return "checkpoint load";
    case Activity::kRedone:
      return "redone steps";
    case Activity::kHang:
      return "hangs";
    case Activity::kDetect:
      return "detection";
    case Activity::kStop:
      return "stop";
  }
  return "";
}

std::string NameOf(core::Cause cause) {
  return cause == core::Cause::kNone ? "the first start" : core::ToString(cause);
}

// The largest first.
template <typename Key>
std::string Parts(const std::map<Key, int64_t>& sums) {
  std::vector<std::pair<Key, int64_t>> parts(sums.begin(), sums.end());
  std::ranges::sort(parts, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  std::string text;
  for (const auto& [key, time] : parts) {
    if (!text.empty()) text += ", ";
    text += NameOf(key) + (" " + Brief(milliseconds(time)));
  }
  return text;
}

// A status is written when something changes, which may be hours ago in a job that reports no
// steps. It has run since then, to an unknown use. Ranks that report change the status themselves.
void AddTimeSince(const core::JobStatus& status, WallTime now, core::Ledger* ledger) {
  const bool runs = status.state == core::JobState::kRunning && ledger->open &&
                    ledger->open->generation.exists() && ledger->through;
  if (!runs || ledger->step_known() || now <= *ledger->through) return;
  const int64_t passed = (now - *ledger->through) / milliseconds(1);
  ledger->elapsed_milliseconds += passed;
  ledger->sums.activities[Activity::kUnknown] += passed * status.attempts.size();
  ledger->goodput = core::kUnknownGoodput;
}

}  // namespace

std::vector<std::string> LedgerLines(const core::JobStatus& status, WallTime now) {
  if (!status.ledger || status.ledger->goodput.empty()) return {};
  core::Ledger ledger = *status.ledger;
  AddTimeSince(status, now, &ledger);
  if (milliseconds(ledger.elapsed_milliseconds) < kShortest) return {};
  std::map<Activity, int64_t> losses = ledger.sums.activities;
  std::erase_if(losses, [](const auto& each) { return !core::IsLoss(each.first); });
  std::vector<std::string> lines = {"machine time " + Brief(milliseconds(ledger.sums.total()))};
  const int64_t unknown = ledger.sums.of(Activity::kUnknown);
  if (ledger.goodput == core::kUnknownGoodput) {
    lines.back() += ", productivity unknown: no step was reported";
  } else {
    lines.back() += ", " + ledger.goodput + " productive";
    if (unknown > 0) lines.back() += "; unknown: " + Brief(milliseconds(unknown));
  }
  if (!losses.empty()) lines.back() += "; lost: " + Parts(losses);
  int failures = status.restarts.application + status.restarts.infrastructure;
  if (status.verdict && status.verdict->cause != core::Cause::kNone &&
      status.verdict->cause != core::Cause::kStopRequested) {
    ++failures;
  }
  if (failures == 0 && status.restarts.stopped == 0) return lines;
  lines.push_back("lost to: " + Parts(ledger.sums.lost_to));
  if (failures > 0) {
    lines.back() +=
        "; a failure every " + Brief(milliseconds(ledger.elapsed_milliseconds / failures)) + " (" +
        std::to_string(failures) + " in " + Brief(milliseconds(ledger.elapsed_milliseconds)) + ")";
  }
  return lines;
}

}  // namespace lockstep::cli
