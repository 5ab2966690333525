#include "core/gang/coordinator/setbacks.h"

#include <gtest/gtest.h>

namespace lockstep::core::setbacks_test {
namespace {

FailureContext Crash(Duration lived, bool first_step_seen = false, int exit_code = 3) {
  FailureContext context;
  context.failure.cause = Cause::kProcessExit;
  context.failure.machine = 0;
  context.failure.rank = 1;
  context.failure.exit_code = exit_code;
  context.lived = lived;
  context.first_step_seen = first_step_seen;
  return context;
}

TEST(SetbacksTest, ShortLivesInARowWaitLongerUntilALongLife) {
  Setbacks setbacks;
  FailurePolicy policy;
  policy.max_restarts = 100;
  const auto wait = [&](Duration lived, int exit_code) {
    return setbacks.Judge(policy, Crash(lived, false, exit_code)).backoff;
  };
  EXPECT_EQ(wait(seconds(1), 3), Duration::zero());
  EXPECT_EQ(wait(seconds(1), 4), seconds(1));
  EXPECT_EQ(wait(seconds(1), 5), seconds(5));
  EXPECT_EQ(wait(hours(1), 6), Duration::zero());
  EXPECT_EQ(wait(seconds(1), 7), Duration::zero());
  setbacks.ForgetShortLives();
  EXPECT_EQ(wait(seconds(1), 8), Duration::zero()) << "resetAfter has passed";
}

TEST(SetbacksTest, SameCrashBeforeAFirstStepTwiceIsAnEarlyCrash) {
  Setbacks setbacks;
  EXPECT_EQ(setbacks.Judge({}, Crash(seconds(1))).action, FailureAction::kRestart);
  EXPECT_EQ(setbacks.last().cause, Cause::kProcessExit);
  const FailureDecision decision = setbacks.Judge({}, Crash(seconds(1)));
  EXPECT_EQ(decision.action, FailureAction::kFail);
  EXPECT_EQ(setbacks.last().cause, Cause::kEarlyCrash);
  EXPECT_EQ(setbacks.decision(), decision.reason);
}

TEST(SetbacksTest, AStepBetweenTwoEqualCrashesMakesThemTwoFailures) {
  Setbacks setbacks;
  setbacks.Judge({}, Crash(seconds(1)));
  setbacks.Judge({}, Crash(hours(1), true));
  EXPECT_EQ(setbacks.Judge({}, Crash(seconds(1))).action, FailureAction::kRestart);
}

TEST(SetbacksTest, PreparationThatFailsAgainWaitsLongerUntilAnAnnouncement) {
  Setbacks setbacks;
  setbacks.OnUnprepared(seconds(10), "the disk is full");
  EXPECT_EQ(setbacks.until(), seconds(11));
  setbacks.OnUnprepared(seconds(20), "the disk is full");
  EXPECT_TRUE(setbacks.Waits(seconds(25) - nanoseconds(1)));
  EXPECT_FALSE(setbacks.Waits(seconds(25)));
  EXPECT_EQ(setbacks.decision(), "the disk is full");
  setbacks.OnAnnounced();
  EXPECT_EQ(setbacks.decision(), "");
  setbacks.OnUnprepared(seconds(40), "the disk is full");
  EXPECT_EQ(setbacks.backoff(), seconds(1));
}

TEST(SetbacksTest, AnnouncementKeepsTheDecisionAboutAFailure) {
  Setbacks setbacks;
  setbacks.Judge({}, Crash(seconds(1)));
  setbacks.OnAnnounced();
  EXPECT_EQ(setbacks.decision(), "restart 1 of 3 allowed");
}

TEST(SetbacksTest, WaitEndsEarlyOnRequestAndNeverLater) {
  Setbacks setbacks;
  setbacks.WaitFor(seconds(10), seconds(30));
  setbacks.EndWait(seconds(12));
  EXPECT_FALSE(setbacks.Waits(seconds(12)));
  setbacks.EndWait(seconds(50));
  EXPECT_EQ(setbacks.until(), seconds(12));
}

}  // namespace
}  // namespace lockstep::core::setbacks_test
