#include "cli/cluster/why_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

StoredJob FailedJob() {
  StoredJob job;
  job.meta.name = "gpt";
  job.meta.name_space = "research";
  job.status.state = core::JobState::kFailed;
  job.status.reason = "rank 9 failed, and no restart is left";
  core::LastFailure last;
  last.generation = {1, 4};
  last.node = "node-b";
  last.failure.cause = core::Cause::kProcessExit;
  last.failure.machine = 1;
  last.failure.rank = 9;
  last.failure.exit_code = 3;
  last.failure.message = "rank 9 on machine 1 exited with code 3";
  last.failure.stderr_tail = "Traceback (most recent call last):\nRuntimeError: \x1b[2Jboom";
  job.status.last_failure = last;
  job.status.verdict = core::JobVerdict{
      .generation = {1, 4}, .exit_code = 3, .cause = core::Cause::kRestartsExhausted};
  job.status.counters.process_failures = 4;
  core::RestartRecord record;
  record.cause = core::Cause::kProcessExit;
  job.status.history = {record, record};
  return job;
}

TEST(WhyText, NamesTheRootCauseItsLastLinesAndWhatToDo) {
  const std::string text = WhyText(FailedJob(), "-n research");
  EXPECT_THAT(text, HasSubstr("trainingjob gpt in namespace research: Failed: rank 9 failed, and "
                              "no restart is left\n"));
  EXPECT_THAT(text, HasSubstr("root cause: ProcessExit, rank 9, machine 1, node node-b, exit code "
                              "3, generation 1-4\n"));
  EXPECT_THAT(text, HasSubstr("| Traceback (most recent call last):\n| RuntimeError: "));
  EXPECT_THAT(text, Not(HasSubstr("\x1b"))) << "a terminal would obey it";
  EXPECT_THAT(text, HasSubstr("meaning: The program ended itself with an error."));
  EXPECT_THAT(text, HasSubstr("meaning: The job failed more often than its budget allows."));
  EXPECT_THAT(text, HasSubstr("verdict: exit code 3, RestartsExhausted\n"));
  EXPECT_THAT(text, HasSubstr("budget used: 3 of 3 restarts, 0 of 10 machine replacements\n"));
  EXPECT_THAT(text, HasSubstr("generations that ended: 2 ProcessExit\n"));
  EXPECT_THAT(text, HasSubstr("lockstep logs gpt -n research --rank 9 --tail 200\n"));
  EXPECT_THAT(text, Not(HasSubstr("lockstep debug"))) << "no rank runs";
}

TEST(WhyText, EveryCauseHasAMeaningAndAnAdvice) {
  for (const auto& each : core::kEnumNames<core::Cause>) {
    if (each.value == core::Cause::kNone) continue;
    StoredJob job = FailedJob();
    job.status.last_failure->failure.cause = each.value;
    job.status.verdict.reset();
    const std::string text = WhyText(job, "");
    EXPECT_THAT(text, HasSubstr("\nmeaning: ")) << each.name;
    EXPECT_THAT(text, HasSubstr("\nto do: ")) << each.name;
  }
}

TEST(WhyText, AJobWithoutAFailureSaysSo) {
  StoredJob job;
  job.meta.name = "gpt";
  job.status.state = core::JobState::kRunning;
  const std::string text = WhyText(job, "");
  EXPECT_THAT(text, HasSubstr("run gpt on this computer: Running\nIt has had no failure.\n"));
  EXPECT_THAT(text, HasSubstr("lockstep debug gpt\n"));
}

}  // namespace
}  // namespace lockstep::cli
