#include "core/gang/diagnosis/progress.h"

#include <gtest/gtest.h>

#include <limits>

namespace lockstep::core {
namespace {

RankProgress Rank(uint32_t rank, int64_t step, double loss) {
  RankProgress progress;
  progress.rank = rank;
  progress.step = step;
  progress.total_steps = 100;
  progress.loss = loss;
  progress.tokens_per_second = 10;
  return progress;
}

GangProgress At(int64_t step) {
  GangProgress progress;
  progress.step = step;
  progress.total_steps = 100;
  return progress;
}

TEST(ProgressTest, TheJobIsAsFarAsItsSlowestRank) {
  double unknown = std::numeric_limits<double>::quiet_NaN();
  auto job = Summarize({Rank(0, 12, 2.0), Rank(1, 10, 4.0), Rank(2, 11, unknown)});
  ASSERT_TRUE(job);
  EXPECT_EQ(job->step, 10);
  EXPECT_EQ(job->total_steps, 100);
  EXPECT_EQ(job->loss, 3.0);
  EXPECT_EQ(job->tokens_per_second, 30);
}

TEST(ProgressTest, RatesThatArePrintedAreNotAdded) {
  RankProgress a = Rank(0, 10, 2.0);
  a.source = StepSource::kOutput;
  a.known.teraflops = 300;
  RankProgress b = Rank(1, 9, 2.0);
  b.source = StepSource::kEpochs;
  const auto job = Summarize({a, b});
  ASSERT_TRUE(job);
  EXPECT_EQ(job->tokens_per_second, 10);
  EXPECT_EQ(job->known.teraflops, 300);
  EXPECT_EQ(job->step, 9);
  EXPECT_EQ(job->source, StepSource::kEpochs);
}

TEST(ProgressTest, StepsThatArePrintedCountOnlyUntilARankReports) {
  RankProgress printed = Rank(0, 3, 9.0);
  printed.source = StepSource::kOutput;
  const auto job = Summarize({printed, Rank(1, 500, 2.0)});
  ASSERT_TRUE(job);
  EXPECT_EQ(job->step, 500);
  EXPECT_EQ(job->loss, 2.0);
  EXPECT_EQ(job->source, StepSource::kReports);
}

TEST(ProgressTest, TheJobsFlopsAreThoseOfAllRanksAndItsMfuTheMeanOfThoseThatSayOne) {
  RankProgress a = Rank(0, 10, 2.0);
  a.known.teraflops = 300;
  a.known.mfu = 0.25;
  RankProgress b = Rank(1, 10, 2.0);
  b.known.teraflops = 500;
  b.known.mfu = 0.5;
  a.known.scaling = 0.875;  // of one rank alone
  const auto job = Summarize({a, b, Rank(2, 10, 2.0)});
  ASSERT_TRUE(job);
  EXPECT_EQ(job->known.teraflops, 800);
  EXPECT_EQ(job->known.mfu, 0.375);
  EXPECT_EQ(job->known.scaling, 0.875);
}

TEST(ProgressTest, EachKnownFigureIsAmongTheJobsFigures) {
  RankProgress rank = Rank(0, 10, 2.0);
  rank.figures = {{"accuracy", 0.5}};
  std::vector<NamedFigure> said = {{"loss", 2.0}, {"tokensPerSecond", 10}};
  for (size_t i = 0; i < kKnownFigures.size(); ++i) {
    rank.known.*kKnownFigures[i].value = static_cast<double>(i + 1);
    said.push_back({std::string(kKnownFigures[i].name), static_cast<double>(i + 1)});
  }
  said.push_back({"accuracy", 0.5});
  const auto job = Summarize({rank});
  ASSERT_TRUE(job);
  EXPECT_EQ(FiguresOf(*job), said);
}

TEST(ProgressTest, ANamedFigureIsTheMeanOfTheRanksThatReportIt) {
  RankProgress a = Rank(0, 10, 2.0);
  a.figures = {{"accuracy", 0.5}, {"reward", 3}};
  RankProgress b = Rank(1, 10, 2.0);
  b.figures = {{"accuracy", 0.75}, {"norm", std::numeric_limits<double>::infinity()}};
  const auto job = Summarize({a, b, Rank(2, 10, 2.0)});
  ASSERT_TRUE(job);
  EXPECT_EQ(job->figures, (std::vector<NamedFigure>{{"accuracy", 0.625}, {"reward", 3}}));
}

TEST(ProgressTest, FiguresOfRanksWithNamesOfTheirOwnAreBounded) {
  std::vector<RankProgress> ranks;
  for (uint32_t rank = 0; rank < 40; ++rank) {
    ranks.push_back(Rank(rank, 10, 2.0));
    ranks.back().figures = {{"name" + std::to_string(rank), 1}};
  }
  EXPECT_EQ(Summarize(ranks)->figures.size(), kMaxNamedFigures);
}

TEST(ProgressTest, WithoutAReportThereIsNone) { EXPECT_FALSE(Summarize({})); }

TEST(RateMeterTest, TheRateComesFromStepsAndTime) {
  RateMeter meter;
  meter.Update(seconds(10), At(20));
  EXPECT_FALSE(meter.steps_per_second());
  meter.Update(seconds(12), At(24));
  meter.Update(seconds(13), At(24));
  EXPECT_EQ(meter.steps_per_second(), 2.0);
  EXPECT_EQ(meter.Remaining(), seconds(38));
}

TEST(RateMeterTest, OldStepsNoLongerCount) {
  RateMeter meter;
  meter.Update(seconds(0), At(0));
  meter.Update(seconds(100), At(10));
  meter.Update(seconds(101), At(20));
  EXPECT_EQ(meter.steps_per_second(), 10.0);
}

TEST(RateMeterTest, ARestartBeginsAnew) {
  RateMeter meter;
  meter.Update(seconds(0), At(50));
  meter.Update(seconds(1), At(60));
  meter.Update(seconds(2), At(40));
  EXPECT_FALSE(meter.steps_per_second());
  meter.Update(seconds(3), At(41));
  EXPECT_EQ(meter.steps_per_second(), 1.0);
}

TEST(RateMeterTest, WithoutATotalThereIsNoEnd) {
  RateMeter meter;
  GangProgress progress;
  meter.Update(seconds(0), progress);
  progress.step = 5;
  meter.Update(seconds(1), progress);
  EXPECT_TRUE(meter.steps_per_second());
  EXPECT_FALSE(meter.Remaining());
}

}  // namespace
}  // namespace lockstep::core
