#include "cli/run/outcome.h"

#include "core/exit_codes.h"

namespace lockstep::cli {
namespace {

using core::Cause;
using core::JobState;

// The root cause's own code where there is one.
int ExitCodeOf(const core::JobVerdict& verdict, const core::Failure& failure) {
  if (failure.signal > 0) return core::kExitSignal + failure.signal;
  if (failure.exit_code > 0) return failure.exit_code;
  const bool machines = core::ClassOf(failure.cause) == core::CauseClass::kInfrastructure;
  return machines ? core::kExitMachines : verdict.exit_code;
}

core::Failure StopRequested(const std::string& message) {
  core::Failure failure;
  failure.cause = Cause::kStopRequested;
  failure.message = message;
  return failure;
}

}  // namespace

Outcome OutcomeOf(const core::JobStatus& status, int signal) {
  Outcome outcome;
  outcome.state = status.state;
  outcome.reason = status.reason;
  if (status.verdict) outcome.generation = status.verdict->generation;
  if (status.state == JobState::kSucceeded) {
    outcome.exit_code = core::kExitSuccess;
  } else if (status.state == JobState::kSuspended) {
    outcome.exit_code = core::kExitSignal + signal;
    outcome.reason = "stopped on request";
    outcome.failure = StopRequested(outcome.reason);
  } else if (status.verdict->cause == Cause::kStopRequested && !outcome.generation.exists()) {
    outcome.exit_code = core::kExitDeadline;
    outcome.failure = StopRequested(outcome.reason);
  } else {
    if (status.last_failure) outcome.failure = status.last_failure->failure;
    outcome.exit_code = ExitCodeOf(*status.verdict, outcome.failure);
  }
  return outcome;
}

}  // namespace lockstep::cli
