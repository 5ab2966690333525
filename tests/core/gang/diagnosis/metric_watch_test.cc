#include "core/gang/diagnosis/metric_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lockstep::core::metric_watch_test {
namespace {

using testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

FailureRule NotFinite(int64_t steps = 1) {
  FailureRule rule;
  rule.metric = "loss";
  rule.is = MetricIs::kNotFinite;
  rule.for_steps = steps;
  return rule;
}

class Watch {
 public:
  explicit Watch(FailureRule rule) { watch_.Begin({std::move(rule)}); }
  // What one report of rank 3 broke; cause kNone: nothing.
  Failure Report(int64_t step, double loss, uint32_t rank = 3) {
    const auto broken = watch_.OnFigures(rank, step, {{"loss", loss}});
    return broken.empty() ? Failure() : broken.front().failure;
  }
  bool Breaks(int64_t step, double loss) {
    return Report(step, loss).cause == Cause::kBrokenMetric;
  }

 private:
  MetricWatch watch_;
};

TEST(MetricWatch, NamesRankStepAndValueOfALossThatIsNotFinite) {
  Watch watch(NotFinite());
  EXPECT_EQ(watch.Report(1, 2.5).cause, Cause::kNone);
  const Failure broken = watch.Report(2, kNaN);
  EXPECT_EQ(broken.cause, Cause::kBrokenMetric);
  EXPECT_EQ(broken.rank, 3);
  EXPECT_EQ(broken.step, 2);
  EXPECT_EQ(broken.rule, 0);
  EXPECT_EQ(broken.stderr_tail, "loss was NaN at step 2");
  EXPECT_EQ(Watch(NotFinite()).Report(2, -INFINITY).stderr_tail, "loss was -infinity at step 2");
}

TEST(MetricWatch, WaitsUntilEachValueIsBadOverSoManySteps) {
  Watch watch(NotFinite(3));
  EXPECT_FALSE(watch.Breaks(1, kNaN));
  EXPECT_FALSE(watch.Breaks(2, kNaN));
  EXPECT_FALSE(watch.Breaks(3, 1));
  EXPECT_FALSE(watch.Breaks(4, kNaN));
  EXPECT_FALSE(watch.Breaks(5, kNaN));
  const Failure broken = watch.Report(6, kNaN);
  EXPECT_EQ(broken.step, 4);
  EXPECT_EQ(broken.last_step, 6);
  EXPECT_THAT(broken.stderr_tail, HasSubstr("at step 4, and bad up to step 6"));
}

TEST(MetricWatch, CountsStepsAndNotReports) {
  Watch watch(NotFinite(20));
  EXPECT_FALSE(watch.Breaks(10, kNaN));
  EXPECT_FALSE(watch.Breaks(20, kNaN));
  EXPECT_TRUE(watch.Breaks(30, kNaN));
}

TEST(MetricWatch, TellsEachRankAndRuleOnceInAGeneration) {
  Watch watch(NotFinite());
  EXPECT_TRUE(watch.Breaks(1, kNaN));
  EXPECT_FALSE(watch.Breaks(2, kNaN));
  EXPECT_EQ(watch.Report(2, kNaN, 4).rank, 4);
}

TEST(MetricWatch, TakesAValueAboveItsLimitOrNotFiniteForBad) {
  FailureRule rule = NotFinite();
  rule.is.reset();
  rule.above = 10;
  EXPECT_FALSE(Watch(rule).Breaks(1, 10));
  EXPECT_TRUE(Watch(rule).Breaks(1, 10.5));
  EXPECT_TRUE(Watch(rule).Breaks(1, kNaN));
  EXPECT_THAT(Watch(rule).Report(1, 12).stderr_tail, HasSubstr("12 at step 1 (rule: above 10)"));
}

FailureRule Rises() {
  FailureRule rule;
  rule.metric = "loss";
  rule.rises_by = "3x";
  rule.within = 10;
  return rule;
}

TEST(MetricWatch, ComparesARiseWithTheLowestValueOfTheLastSteps) {
  Watch watch(Rises());
  EXPECT_FALSE(watch.Breaks(1, 2));
  EXPECT_FALSE(watch.Breaks(2, 1));
  EXPECT_FALSE(watch.Breaks(3, 3));
  EXPECT_TRUE(watch.Breaks(4, 3.1));
}

TEST(MetricWatch, ForgetsLowValuesThatAreOlderThanWithin) {
  Watch watch(Rises());
  EXPECT_FALSE(watch.Breaks(1, 1));
  EXPECT_FALSE(watch.Breaks(5, 2.5));
  EXPECT_FALSE(watch.Breaks(11, 2.8)) << "step 1 is 10 steps ago";
  EXPECT_FALSE(watch.Breaks(12, 7));
  EXPECT_TRUE(watch.Breaks(13, 8.5));
}

TEST(MetricWatch, DoesNotCompareWithAValueThatIsOlderThanWithin) {
  Watch watch(Rises());
  EXPECT_FALSE(watch.Breaks(1000, 1));
  EXPECT_FALSE(watch.Breaks(2000, 4)) << "of an evaluation each 1,000 steps";
  EXPECT_FALSE(watch.Breaks(2009, 4));
  EXPECT_TRUE(watch.Breaks(2018, 13)) << "step 2009 is 9 steps ago";
}

TEST(MetricWatch, DoesNotTakeBadValuesForTheUsualOnes) {
  FailureRule rule = Rises();
  rule.for_steps = 50;
  Watch watch(rule);
  EXPECT_FALSE(watch.Breaks(1, 1));
  for (int64_t step = 2; step <= 50; ++step) EXPECT_FALSE(watch.Breaks(step, 5)) << step;
  EXPECT_EQ(watch.Report(51, 5).step, 2);
}

TEST(MetricWatch, BlamesTheCheckpointIfNoValueOfTheGenerationIsGood) {
  FailureRule rule = NotFinite(3);
  rule.action = FailureAction::kRestartFromEarlier;
  MetricWatch watch;
  watch.Begin({rule}, 550);
  EXPECT_TRUE(watch.OnFigures(0, 551, {{"loss", kNaN}}).empty());
  ASSERT_EQ(watch.Open().size(), 1U);
  EXPECT_EQ(watch.Open()[0].step, 550);
  const auto broken = watch.OnFigures(0, 553, {{"loss", kNaN}});
  ASSERT_EQ(broken.size(), 1U);
  EXPECT_EQ(broken[0].failure.step, 550);
  EXPECT_EQ(broken[0].failure.stderr_tail, "loss was NaN at step 551, and bad up to step 553");
  EXPECT_TRUE(watch.Open().empty()) << "told already";

  watch.Begin({rule}, 550);
  watch.OnFigures(0, 551, {{"loss", 1}});
  EXPECT_TRUE(watch.Open().empty());
  watch.OnFigures(0, 552, {{"loss", kNaN}});
  EXPECT_EQ(watch.Open()[0].step, 552);
}

TEST(MetricWatch, IgnoresOtherMetricsAndReportsWithoutAStep) {
  MetricWatch watch;
  watch.Begin({NotFinite()});
  EXPECT_TRUE(watch.OnFigures(0, 1, {{"accuracy", kNaN}}).empty());
  EXPECT_TRUE(watch.OnFigures(0, 0, {{"loss", kNaN}}).empty());
}

TEST(MetricWatch, BeginsAnewWhereARankGoesBackInSteps) {
  Watch watch(NotFinite(3));
  EXPECT_FALSE(watch.Breaks(8, kNaN));
  EXPECT_FALSE(watch.Breaks(9, kNaN));
  EXPECT_FALSE(watch.Breaks(5, kNaN));
  EXPECT_FALSE(watch.Breaks(6, kNaN));
  EXPECT_EQ(watch.Report(7, kNaN).step, 5);
}

}  // namespace
}  // namespace lockstep::core::metric_watch_test
