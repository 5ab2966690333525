#include <algorithm>

#include "operator/policy/status/status_policies.h"

namespace lockstep::control {
namespace {

using core::Condition;
using core::PreflightState;

constexpr const char* kPassed = "PreflightPassed";

Condition::Value ValueOf(PreflightState state) {
  switch (state) {
    case PreflightState::kPassed:
      return Condition::Value::kTrue;
    case PreflightState::kSlow:
      return Condition::Value::kFalse;
    case PreflightState::kWaiting:
    case PreflightState::kMeasuring:
      break;
  }
  return Condition::Value::kUnknown;
}

// The present and former slow machines with their figures; first the ones that the job continues
// with.
std::string InWords(const ReconcileContext& context, const core::PreflightStatus& status) {
  std::string kept;
  std::string replaced;
  for (const core::SlowMachine& slow : status.slow) {
    const bool is_gone = slow.attempt != context.next.attempts.Of(static_cast<int>(slow.machine));
    if (is_gone && !slow.replaced) continue;
    (slow.replaced ? replaced : kept) += "; machine " + std::to_string(slow.machine) +
                                         (slow.replaced ? " was replaced: " : " is slow: ") +
                                         slow.because;
  }
  std::string words = kept + replaced;
  if (!status.typical.empty()) words += "; medians " + status.typical;
  return words.empty() ? words : words.substr(2);
}

void ShowWhetherPassed(ReconcileContext& context, const core::PreflightStatus& status) {
  PutCondition(context, kPassed, ValueOf(status.state), core::ToString(status.state),
               InWords(context, status));
}

}  // namespace

void ObservePreflight(ReconcileContext& context) {
  if (!context.spec().preflight.enabled) {
    std::erase_if(context.next.conditions,
                  [](const Condition& each) { return each.type == kPassed; });
    context.next.preflight.reset();
    return;
  }
  const core::GangStatus* gang = Coordinator(context);
  if (gang == nullptr || !gang->preflight) return;
  std::optional<core::PreflightStatus>& status = context.next.preflight;
  core::JobStatus as_written;
  as_written.preflight = gang->preflight;
  core::Shorten(as_written);
  for (const core::SlowMachine& slow : as_written.preflight->slow) {
    // The report of the replaced machine includes the replacement.
    if (slow.replaced) continue;
    if (status && std::ranges::find(status->slow, slow) != status->slow.end()) continue;
    context.AddEvent(true, "PreflightFoundSlow",
                     "machine " + std::to_string(slow.machine) +
                         " is slow, and the job continues with it: " + slow.because);
  }
  status = std::move(as_written.preflight);
  ShowWhetherPassed(context, *status);
}

std::string SlownessOf(const ReconcileContext& context, const Machine& machine) {
  const core::GangStatus* gang = Coordinator(context);
  if (gang == nullptr || !context.spec().preflight.enabled) return "";
  const core::GangStatus::MachineStatus* told = ReportOf(*gang, machine);
  return told == nullptr ? "" : told->slow;
}

}  // namespace lockstep::control
