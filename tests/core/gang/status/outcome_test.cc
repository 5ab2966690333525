#include "core/gang/status/outcome.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/exit_codes.h"

namespace lockstep::core::outcome_test {
namespace {

using ::testing::HasSubstr;

Termination Told(int code, uint32_t machine, uint32_t attempt) {
  Termination told;
  told.exit_code = code;
  told.machine = machine;
  told.attempt = attempt;
  told.generation = {attempt, 3};
  told.verdict = true;
  told.reason = "told";
  return told;
}

GangStatus Heard(int code) {
  GangStatus last;
  last.coordinator = true;
  last.attempt = 1;
  last.generation = {1, 2};
  Verdict verdict;
  verdict.generation = {1, 2};
  verdict.exit_code = static_cast<uint32_t>(code);
  verdict.reason = "heard";
  verdict.failure.exit_code = code == 0 ? -1 : 3;
  last.verdict = verdict;
  last.unwritten = "checkpoint a was not written";
  return last;
}

TEST(Outcome, OfAMessageIsTheMessages) {
  const std::string message = ToJson(Told(kExitFailed, 1, 1));
  const auto outcome = OutcomeOf({1, 1, kExitFailed, message}, nullptr, 1);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->reason, "told");
}

TEST(Outcome, WithoutAMessageIsWhatMachine0Told) {
  const GangStatus last = Heard(kExitFailed);
  for (const char* lost : {"", "{\"exitCode\": 70, \"gener"}) {
    const auto outcome = OutcomeOf({0, 1, kExitFailed, lost}, &last, 1);
    ASSERT_TRUE(outcome) << lost;
    EXPECT_EQ(outcome->reason, "heard");
    EXPECT_EQ(outcome->failure.exit_code, 3);
    EXPECT_EQ(outcome->generation, (Generation{1, 2}));
  }
}

TEST(Outcome, OfAnAgentThatWasKilledAfterItsVerdictIsTheVerdict) {
  const GangStatus last = Heard(kExitSuccess);
  const auto outcome = OutcomeOf({0, 1, std::nullopt, ""}, &last, 1);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->exit_code, kExitSuccess);
}

TEST(Outcome, OfAnEarlierMachine0IsNone) {
  const GangStatus last = Heard(kExitSuccess);
  EXPECT_FALSE(VerdictHeard(&last, 2));
  EXPECT_FALSE(OutcomeOf({1, 1, std::nullopt, ""}, &last, 2));
  EXPECT_FALSE(OutcomeOf({1, 1, kExitSuccess, ""}, nullptr, 2)) << "it may know an earlier gang";
  EXPECT_FALSE(OutcomeOf({1, 1, kExitSuccess, ToJson(Told(0, 1, 1))}, nullptr, 2));
}

TEST(Outcome, WithoutAnyWordIsTheExitCodes) {
  const auto success = OutcomeOf({1, 2, kExitSuccess, ""}, nullptr, 1);
  ASSERT_TRUE(success);
  EXPECT_EQ(success->exit_code, kExitSuccess);
  EXPECT_EQ(success->failure.cause, Cause::kNone);
  const auto failed = OutcomeOf({0, 1, kExitFailed, ""}, nullptr, 1);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->exit_code, kExitFailed);
  EXPECT_THAT(failed->failure.message, HasSubstr("not known"));
  EXPECT_THAT(failed->reason, HasSubstr("code 70 and left no message"));
  EXPECT_EQ(OutcomeOf({0, 1, kExitHang, ""}, nullptr, 1)->failure.cause, Cause::kHang);
}

TEST(Outcome, OfCodesThatNoVerdictGivesIsNone) {
  for (const int code : {1, kExitReplace, kExitStopped, kExitConfiguration, 137}) {
    EXPECT_FALSE(OutcomeOf({0, 1, code, ""}, nullptr, 1)) << code;
  }
  EXPECT_FALSE(OutcomeOf({0, 1, std::nullopt, ""}, nullptr, 1)) << "a signal";
}

TEST(Outcome, SaysWhichCheckpointWasNotWrittenWhoeverTellsIt) {
  const GangStatus last = Heard(kExitSuccess);
  const std::string message = ToJson(Told(kExitSuccess, 1, 1));
  EXPECT_EQ(OutcomeOf({1, 1, kExitSuccess, message}, &last, 1)->unwritten, last.unwritten);
  EXPECT_EQ(OutcomeOf({1, 1, std::nullopt, ""}, &last, 1)->unwritten, last.unwritten);
}

}  // namespace
}  // namespace lockstep::core::outcome_test
