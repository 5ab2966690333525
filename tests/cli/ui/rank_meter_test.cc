#include "cli/ui/rank_meter.h"

#include <gtest/gtest.h>

namespace lockstep::cli::rank_meter_test {
namespace {

TEST(RankMeterTest, AStepLastsAsLongAsItsShareOfTheTimeBetweenTwoReports) {
  RankMeter meter;
  meter.Update(seconds(10), 3, {.step = 100, .waits = 100, .waited = 5});
  EXPECT_FALSE(meter.Of(3).step_seconds);
  meter.Update(seconds(12), 3, {.step = 110, .waits = 110, .waited = 5.5});
  EXPECT_DOUBLE_EQ(*meter.Of(3).step_seconds, 0.2);
  EXPECT_DOUBLE_EQ(*meter.Of(3).wait_seconds, 0.05);
  EXPECT_FALSE(meter.Of(4).step_seconds);
}

TEST(RankMeterTest, OnlyTheLastReportsCount) {
  RankMeter meter;
  for (int64_t i = 0; i <= 50; ++i) {
    meter.Update(i < 30 ? seconds(100 * i) : seconds(3000 + i), 0, {.step = i});
  }
  EXPECT_DOUBLE_EQ(*meter.Of(0).step_seconds, 1);
}

TEST(RankMeterTest, WaitsThatNobodyReportsAreUnknown) {
  RankMeter meter;
  meter.Update(seconds(1), 0, {.step = 1});
  meter.Update(seconds(2), 0, {.step = 2});
  EXPECT_FALSE(meter.Of(0).wait_seconds);
}

TEST(RankMeterTest, ARankThatWentBackInStepsBeginsAnew) {
  RankMeter meter;
  meter.Update(seconds(1), 0, {.step = 10});
  meter.Update(seconds(2), 0, {.step = 20});
  meter.Update(seconds(9), 0, {.step = 15});
  EXPECT_FALSE(meter.Of(0).step_seconds);
  meter.Update(seconds(10), 0, {.step = 16});
  EXPECT_DOUBLE_EQ(*meter.Of(0).step_seconds, 1);
}

}  // namespace
}  // namespace lockstep::cli::rank_meter_test
