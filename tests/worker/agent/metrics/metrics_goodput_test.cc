#include "worker/agent/metrics/metrics_goodput.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace lockstep::agent {
namespace {

using core::CoordinatorPhase;

Duration Of(const Goodput& goodput, GoodputState state, Time now) {
  return goodput.At(now)[static_cast<size_t>(state)];
}

// Born at 0; waits one second, starts for one second, runs from 2 s on.
Goodput Running() {
  Goodput goodput(Time::zero());
  goodput.OnPhase(seconds(1), CoordinatorPhase::kPreparing);
  goodput.OnPhase(seconds(1), CoordinatorPhase::kStarting);
  goodput.OnPhase(seconds(2), CoordinatorPhase::kRunning);
  return goodput;
}

// A failure at `now` and the next generation running a second later.
void Restart(Goodput* goodput, Time now) {
  goodput->OnPhase(now, CoordinatorPhase::kStopping);
  goodput->OnPhase(now, CoordinatorPhase::kPreparing);
  goodput->OnPhase(now, CoordinatorPhase::kStarting);
  goodput->OnPhase(now + seconds(1), CoordinatorPhase::kRunning);
}

TEST(GoodputTest, WaitsForMachinesThenStartsThenRuns) {
  const Goodput goodput = Running();
  EXPECT_EQ(Of(goodput, GoodputState::kWaiting, seconds(2)), seconds(1));
  EXPECT_EQ(Of(goodput, GoodputState::kRestart, seconds(2)), seconds(1));
  EXPECT_EQ(goodput.state(), GoodputState::kUnknown) << "it may be a program without reports";
}

TEST(GoodputTest, TimeBeforeTheFirstReportedStepOfAllStaysUnknown) {
  Goodput goodput = Running();
  goodput.OnStep(seconds(9), 1);
  EXPECT_EQ(Of(goodput, GoodputState::kUnknown, seconds(10)), seconds(7));
  EXPECT_EQ(Of(goodput, GoodputState::kProductive, seconds(10)), seconds(1));
  Restart(&goodput, seconds(10));
  EXPECT_EQ(Of(goodput, GoodputState::kUnknown, seconds(60)), seconds(7));
}

TEST(GoodputTest, ARestartOfAProgramThatReportsNothingIsNoProof) {
  Goodput goodput = Running();
  Restart(&goodput, seconds(4));
  EXPECT_EQ(goodput.state(), GoodputState::kUnknown);
  EXPECT_EQ(Of(goodput, GoodputState::kProductive, seconds(9)), Duration::zero());
}

TEST(GoodputTest, StepsThatAreDoneAgainAreLostTime) {
  Goodput goodput = Running();
  goodput.OnStep(seconds(3), 1);
  goodput.OnStep(seconds(12), 10);
  Restart(&goodput, seconds(13));
  goodput.OnStep(seconds(20), 6);
  EXPECT_EQ(goodput.lost_steps(), 5);
  EXPECT_EQ(goodput.state(), GoodputState::kLost);
  goodput.OnStep(seconds(24), 10);
  EXPECT_EQ(goodput.state(), GoodputState::kProductive);
  EXPECT_EQ(Of(goodput, GoodputState::kLost, seconds(30)), seconds(4));
  EXPECT_EQ(Of(goodput, GoodputState::kUnknown, seconds(30)), seconds(1));
  EXPECT_EQ(Of(goodput, GoodputState::kProductive, seconds(30)), seconds(10 + 6));
  EXPECT_EQ(Of(goodput, GoodputState::kRestart, seconds(30)), seconds(1 + 7))
      << "until the first step of the new generation";
}

TEST(GoodputTest, AResumeAtTheNextStepLosesNothing) {
  Goodput goodput = Running();
  goodput.OnStep(seconds(3), 10);
  Restart(&goodput, seconds(4));
  goodput.OnStep(seconds(6), 11);
  EXPECT_EQ(goodput.lost_steps(), 0);
  EXPECT_EQ(goodput.state(), GoodputState::kProductive);
}

TEST(GoodputTest, ASlowRanksLateReportLosesNothing) {
  Goodput goodput = Running();
  goodput.OnStep(seconds(3), 10);
  goodput.OnStep(seconds(4), 9);
  EXPECT_EQ(goodput.lost_steps(), 0);
  EXPECT_EQ(goodput.state(), GoodputState::kProductive);
}

TEST(GoodputTest, TwoRestartsCountTheSameStepsTwice) {
  Goodput goodput = Running();
  goodput.OnStep(seconds(3), 10);
  Restart(&goodput, seconds(4));
  goodput.OnStep(seconds(6), 9);
  Restart(&goodput, seconds(7));
  goodput.OnStep(seconds(9), 9);
  EXPECT_EQ(goodput.lost_steps(), 4);
}

TEST(GoodputTest, CheckpointTimeRunsWhileAnyCommitIsOpen) {
  Goodput goodput = Running();
  goodput.OnCommitAsked(seconds(3));
  goodput.OnCommitAsked(seconds(4));
  goodput.OnCommitAnswered(seconds(5));
  EXPECT_EQ(goodput.state(), GoodputState::kCheckpoint);
  goodput.OnCommitAnswered(seconds(6));
  EXPECT_EQ(goodput.state(), GoodputState::kUnknown);
  EXPECT_EQ(Of(goodput, GoodputState::kCheckpoint, seconds(9)), seconds(3));
}

TEST(GoodputTest, ACommitEndsWithItsGeneration) {
  Goodput goodput = Running();
  goodput.OnCommitAsked(seconds(3));
  Restart(&goodput, seconds(4));
  EXPECT_EQ(goodput.state(), GoodputState::kUnknown);
}

TEST(GoodputTest, NothingCountsAfterTheVerdict) {
  Goodput goodput = Running();
  goodput.OnPhase(seconds(5), CoordinatorPhase::kVerdict);
  EXPECT_EQ(goodput.At(seconds(5)), goodput.At(seconds(50)));
}

TEST(GoodputTest, StatesAddUpToTheTimeThatPassedAndNeverFall) {
  std::mt19937 random(7);
  const auto pick = [&random](int n) {
    return static_cast<int>(random() % static_cast<unsigned>(n));
  };
  Goodput goodput(Time::zero());
  GoodputDurations before{};
  Time now{};
  for (int i = 0; i < 10000; ++i) {
    now += milliseconds(pick(1000));
    switch (pick(4)) {
      case 0:  // all but Verdict and Done, at which the clock stops
        goodput.OnPhase(now, static_cast<CoordinatorPhase>(pick(8)));
        break;
      case 1:
        goodput.OnStep(now, pick(50) - 1);
        break;
      case 2:
        goodput.OnCommitAsked(now);
        break;
      default:
        goodput.OnCommitAnswered(now);
        break;
    }
    const GoodputDurations after = goodput.At(now);
    ASSERT_EQ(std::accumulate(after.begin(), after.end(), Duration::zero()), now);
    for (size_t state = 0; state < kGoodputStates; ++state) ASSERT_GE(after[state], before[state]);
    before = after;
  }
}

}  // namespace
}  // namespace lockstep::agent
