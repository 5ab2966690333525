#include "cli/run/outcome.h"

#include <gtest/gtest.h>

#include <csignal>

#include "core/exit_codes.h"

namespace lockstep::cli {
namespace {

using core::Cause;
using core::JobState;

core::JobStatus Failed(int exit_code, const core::Failure& failure) {
  core::JobStatus status;
  status.state = JobState::kFailed;
  status.reason = "why";
  status.verdict =
      core::JobVerdict{.generation = {1, 2}, .exit_code = exit_code, .cause = failure.cause};
  status.last_failure = core::LastFailure{.failure = failure};
  return status;
}

core::Failure Of(Cause cause, int exit_code, int signal) {
  core::Failure failure;
  failure.cause = cause;
  failure.exit_code = exit_code;
  failure.signal = signal;
  return failure;
}

TEST(Outcome, OfASuccessIsZeroWhateverFailedOnTheWay) {
  core::JobStatus status = Failed(0, Of(Cause::kProcessExit, 3, 0));
  status.state = JobState::kSucceeded;
  const Outcome outcome = OutcomeOf(status, 0);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.failure.cause, Cause::kNone);
  EXPECT_EQ(outcome.generation, (core::Generation{1, 2}));
}

TEST(Outcome, OfAFailureIsItsProcessesOwnCodeOrSignal) {
  EXPECT_EQ(OutcomeOf(Failed(70, Of(Cause::kProcessExit, 3, 0)), 0).exit_code, 3);
  EXPECT_EQ(OutcomeOf(Failed(70, Of(Cause::kProcessSignal, -1, 9)), 0).exit_code, 137);
  EXPECT_EQ(OutcomeOf(Failed(70, Of(Cause::kProcessExit, 3, 0)), 0).reason, "why");
}

TEST(Outcome, WhereNoProcessSaysWhyTheCauseDoes) {
  EXPECT_EQ(OutcomeOf(Failed(70, Of(Cause::kMachineLost, -1, 0)), 0).exit_code,
            core::kExitMachines);
  EXPECT_EQ(OutcomeOf(Failed(77, Of(Cause::kHang, -1, 0)), 0).exit_code, core::kExitHang);
  EXPECT_EQ(OutcomeOf(Failed(78, Of(Cause::kConfiguration, -1, 0)), 0).exit_code,
            core::kExitConfiguration);
}

TEST(Outcome, OfADeadlineIsNotThatOfAnEarlierFailure) {
  core::JobStatus status = Failed(0, Of(Cause::kProcessExit, 3, 0));
  status.verdict =
      core::JobVerdict{.generation = {}, .exit_code = 0, .cause = Cause::kStopRequested};
  const Outcome outcome = OutcomeOf(status, 0);
  EXPECT_EQ(outcome.exit_code, core::kExitDeadline);
  EXPECT_EQ(outcome.failure.cause, Cause::kStopRequested);
  EXPECT_EQ(outcome.failure.message, "why");
}

TEST(Outcome, OfAStopIsTheSignalThatAskedForIt) {
  core::JobStatus status;
  status.state = JobState::kSuspended;
  const Outcome outcome = OutcomeOf(status, SIGINT);
  EXPECT_EQ(outcome.exit_code, 130);
  EXPECT_EQ(outcome.state, JobState::kSuspended);
  EXPECT_EQ(outcome.failure.cause, Cause::kStopRequested);
}

}  // namespace
}  // namespace lockstep::cli
