#include "cli/numa/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace lockstep::numa {
namespace {

TEST(StatisticsTest, TheMedianIsTheMiddleOneOrBetweenTheMiddleTwo) {
  EXPECT_EQ(Summarize({9, 1, 5}, 1).median, 5);
  EXPECT_EQ(Summarize({9, 1, 5, 7}, 1).median, 6);
  EXPECT_EQ(Summarize({4}, 1).median, 4);
  EXPECT_EQ(Summarize({}, 1).count, 0);
  EXPECT_DOUBLE_EQ(Summarize({2, 4, 4, 4, 5, 5, 7, 9}, 1).deviation, std::sqrt(32.0 / 7));
  EXPECT_EQ(Summarize({4}, 1).deviation, 0);
}

TEST(StatisticsTest, TheIntervalHoldsTheMedianAndNeverLeavesTheFigures) {
  const Summary summary = Summarize({5, 1, 9, 3, 7, 2, 8, 4, 6, 100}, 1);
  EXPECT_LE(summary.least, summary.low);
  EXPECT_LE(summary.low, summary.median);
  EXPECT_LE(summary.median, summary.high);
  EXPECT_LT(summary.high, 100);
  EXPECT_EQ(summary.most, 100);
  EXPECT_EQ(Summarize({3, 3, 3}, 1).low, Summarize({3, 3, 3}, 1).high);
}

TEST(StatisticsTest, TheIntervalHoldsTheTrueMedianAboutAsOftenAsItSays) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> draw(10, 2);
  int held = 0;
  for (int series = 0; series < 200; ++series) {
    std::vector<double> figures(20);
    for (double& figure : figures) figure = draw(random);
    const Summary summary = Summarize(figures, 1);
    held += summary.low <= 10 && 10 <= summary.high ? 1 : 0;
  }
  EXPECT_GE(held, 178);  // of 200 that would be 190, and of a coin's 100
  EXPECT_LE(held, 199);
}

TEST(StatisticsTest, TheSameSeedGivesTheSameInterval) {
  const std::vector<double> figures = {1, 5, 2, 8, 3, 9, 4};
  EXPECT_EQ(Summarize(figures, 3).low, Summarize(figures, 3).low);
  EXPECT_EQ(Summarize(figures, 3).high, Summarize(figures, 3).high);
}

}  // namespace
}  // namespace lockstep::numa
