#include "cli/run/output/outcome.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

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
  EXPECT_EQ(ExitCodeOf(status, 0), 0);
  EXPECT_EQ(EndingOf(status).cause, Cause::kNone);
}

TEST(Outcome, TheLastWordsOfTheRootCauseAreMarked) {
  core::Failure failure = Of(Cause::kProcessExit, 1, 0);
  EXPECT_TRUE(LastWordsLines(failure).empty());
  failure.rank = 2;
  failure.machine = 1;
  failure.stderr_tail = "Traceback\n  step()\nValueError: bad";
  EXPECT_EQ(LastWordsLines(failure),
            (std::vector<std::string>{"last words of the root cause, rank 2 on machine 1:",
                                      "| Traceback", "|   step()", "| ValueError: bad"}));
}

TEST(Outcome, OfAFailureIsItsVerdicts) {
  EXPECT_EQ(ExitCodeOf(Failed(3, Of(Cause::kProcessExit, 3, 0)), 0), 3);
}

TEST(Outcome, OfADeadlineIsNotThatOfAnEarlierFailure) {
  core::JobStatus status = Failed(3, Of(Cause::kProcessExit, 3, 0));
  status.verdict = core::JobVerdict{
      .generation = {}, .exit_code = core::kExitDeadline, .cause = Cause::kStopRequested};
  EXPECT_EQ(ExitCodeOf(status, 0), core::kExitDeadline);
  EXPECT_EQ(EndingOf(status).cause, Cause::kStopRequested);
  EXPECT_EQ(EndingOf(status).message, "why");
}

TEST(Outcome, OfAStopIsTheSignalThatAskedForIt) {
  core::JobStatus status;
  status.state = JobState::kSuspended;
  EXPECT_EQ(ExitCodeOf(status, SIGINT), 130);
  EXPECT_EQ(EndingOf(status).cause, Cause::kStopRequested);
}

TEST(Outcome, TheLastLineSaysWhatFailedAndWhyThatWasTheEnd) {
  core::JobStatus status = Failed(70, Of(Cause::kProcessExit, 1, 0));
  status.reason = "rank 3 on machine 0 exited with code 1; maxRestarts is 0";
  EXPECT_EQ(ClosingLine("gpt", status, 1, seconds(90)),
            "job gpt failed: rank 3 on machine 0 exited with code 1; maxRestarts is 0 "
            "(1 generation, 1m30s)");
  status.state = JobState::kSucceeded;
  EXPECT_EQ(ClosingLine("gpt", status, 2, milliseconds(600)),
            "job gpt succeeded (2 generations, 600 ms)");
  status.state = JobState::kSuspended;
  EXPECT_EQ(ClosingLine("gpt", status, 2, seconds(5)), "job gpt stopped (2 generations, 5.0 s)");
}

}  // namespace
}  // namespace lockstep::cli
