// Rules about metrics: what follows if a figure breaks one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/exit_codes.h"
#include "tests/core/gang/gang_fixture.h"

namespace lockstep::core {
namespace {

using testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class MetricsTest : public GangFixture {
 protected:
  void Rule(FailureAction action) {
    rule_.metric = "loss";
    rule_.is = MetricIs::kNotFinite;
    rule_.action = action;
    policy_.rules = {rule_};
    Begin(2);
    Advance(seconds(1));
  }
  void Report(uint32_t rank, int64_t step, double loss) {
    const uint32_t machine = rank / 2;
    Do(machine, machines_[machine].member->OnFigures(now_, rank, step, {{"loss", loss}}));
    Settle();
  }

  FailureRule rule_;
};

TEST_F(MetricsTest, FailEndsTheJobWithMetricRankStepAndValue) {
  Rule(FailureAction::kFail);
  Report(3, 7, kNaN);
  Advance(seconds(1));
  ASSERT_TRUE(coordinator_->verdict());
  const Failure& failure = coordinator_->verdict()->failure;
  EXPECT_EQ(failure.cause, Cause::kBrokenMetric);
  EXPECT_EQ(failure.message, "rank 3 on machine 1: loss was NaN at step 7");
  EXPECT_EQ(failure.step, 7);
  EXPECT_EQ(coordinator_->verdict()->exit_code, static_cast<uint32_t>(kExitFailed));
}

TEST_F(MetricsTest, TheLowestStepIsTheRootCauseWhicheverRankIsHeardFirst) {
  Rule(FailureAction::kFail);
  Do(0, machines_[0].member->OnFigures(now_, 0, 8, {{"loss", kNaN}}));
  Do(1, machines_[1].member->OnFigures(now_, 3, 7, {{"loss", kNaN}}));
  Settle();
  Advance(seconds(1));
  ASSERT_TRUE(coordinator_->verdict());
  EXPECT_EQ(coordinator_->verdict()->failure.message,
            "rank 3 on machine 1: loss was NaN at step 7");
}

TEST_F(MetricsTest, ReportGoesOnAndIsKnown) {
  Rule(FailureAction::kReport);
  Report(3, 7, kNaN);
  Advance(seconds(1));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  ASSERT_TRUE(coordinator_->noted_metric());
  EXPECT_EQ(coordinator_->noted_metric()->message, "rank 3 on machine 1: loss was NaN at step 7");
}

TEST_F(MetricsTest, RestartFromEarlierAsksForACheckpointBeforeTheFirstBadStep) {
  rule_.for_steps = 3;
  rule_.skip_steps = 2;
  Rule(FailureAction::kRestartFromEarlier);
  for (int64_t step = 7; step <= 9; ++step) Report(3, step, kNaN);
  Advance(seconds(1));
  EXPECT_EQ(coordinator_->generation().ToString(), "1-2");
  ASSERT_TRUE(earlier_.back());
  EXPECT_EQ(earlier_.back()->before, 7);
  EXPECT_EQ(earlier_.back()->skip_first, 7) << "all bad steps";
  EXPECT_EQ(earlier_.back()->skip_last, 9);
  EXPECT_EQ(machines_[0].spawns.back().start.skip_steps, "7-7");
  EXPECT_EQ(coordinator_->counters().process_failures, 1U);
  EXPECT_EQ(coordinator_->last_failure().cause, Cause::kBrokenMetric);
}

TEST_F(MetricsTest, NoProcessOutlivesAGenerationThatIsLeftBehind) {
  Rule(FailureAction::kRestartFromEarlier);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    Do(rank / 2,
       machines_[rank / 2].member->OnRejoins(now_, coordinator_->generation(), rank, true));
  }
  Settle();
  Report(3, 7, kNaN);
  Advance(seconds(1));
  EXPECT_TRUE(machines_[0].stops.back().spared.empty());
  EXPECT_TRUE(machines_[0].spawns.back().kept.empty());
}

TEST_F(MetricsTest, GoesFurtherBackIfTheSameStepIsBadAgain) {
  prepare_resume_ = "/ckpt/1-1/000005.step-6";
  Rule(FailureAction::kRestartFromEarlier);
  Report(3, 7, kNaN);
  Advance(seconds(5));
  Report(3, 7, kNaN);
  Advance(seconds(5));
  ASSERT_TRUE(earlier_.back());
  EXPECT_EQ(earlier_.back()->before, 6) << "the checkpoint of step 6 is bad, too";
}

TEST_F(MetricsTest, TheFirstBadStepIsKnownAfterAGenerationThatEndedForAnotherReason) {
  rule_.for_steps = 100;
  Rule(FailureAction::kRestartFromEarlier);
  Report(3, 499, 1);
  Report(3, 500, kNaN);
  prepare_resume_ = "/ckpt/1-1/000011.step-550";
  Kill(0, 0, 9);
  Advance(seconds(5));
  ASSERT_EQ(coordinator_->generation().ToString(), "1-2");
  EXPECT_FALSE(earlier_.back()) << "the rule is not broken yet";
  Report(3, 551, kNaN);
  prepare_resume_ = "/ckpt/1-1/000012.step-560";
  Kill(0, 0, 9);
  Advance(seconds(10));
  ASSERT_EQ(coordinator_->generation().ToString(), "1-3");
  Report(3, 561, kNaN);
  Report(3, 661, kNaN);
  Advance(seconds(10));
  ASSERT_TRUE(earlier_.back());
  EXPECT_EQ(earlier_.back()->before, 500);
}

TEST_F(MetricsTest, AFirstBadStepIsForgottenOnceValuesAreGoodAgain) {
  rule_.for_steps = 3;
  Rule(FailureAction::kRestartFromEarlier);
  Report(3, 500, kNaN);
  prepare_resume_ = "/ckpt/1-1/000011.step-550";
  Kill(0, 0, 9);
  Advance(seconds(5));
  Report(3, 551, 1);
  Report(3, 900, kNaN);
  Report(3, 902, kNaN);
  Advance(seconds(5));
  ASSERT_TRUE(earlier_.back());
  EXPECT_EQ(earlier_.back()->before, 900);
}

TEST_F(MetricsTest, ACrashAfterItResumesFromTheLineAsUsual) {
  Rule(FailureAction::kRestartFromEarlier);
  Report(3, 7, kNaN);
  Advance(seconds(5));
  Kill(0, 0, 9);
  Advance(seconds(5));
  EXPECT_FALSE(earlier_.back());
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
}

TEST_F(MetricsTest, TheJobEndsAfterAtMostSoManyTimes) {
  policy_.max_restarts = 10;
  rule_.at_most = 1;
  Rule(FailureAction::kRestartFromEarlier);
  Report(3, 7, kNaN);
  Advance(seconds(5));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  Report(3, 9, kNaN);
  Advance(seconds(5));
  ASSERT_TRUE(coordinator_->verdict());
  EXPECT_THAT(coordinator_->verdict()->reason, HasSubstr("atMost is 1"));
}

TEST_F(MetricsTest, TheJobEndsIfNoEarlierCheckpointIsLeft) {
  Rule(FailureAction::kRestartFromEarlier);
  none_earlier_ = true;
  Report(3, 7, kNaN);
  Advance(seconds(5));
  ASSERT_TRUE(coordinator_->verdict());
  EXPECT_EQ(coordinator_->verdict()->failure.cause, Cause::kBrokenMetric);
  EXPECT_EQ(coordinator_->verdict()->reason, "no checkpoint is left");
}

}  // namespace
}  // namespace lockstep::core
