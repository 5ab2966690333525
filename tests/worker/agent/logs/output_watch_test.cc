#include "worker/agent/logs/output_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/base/loop_test_base.h"

namespace lockstep::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class OutputWatchTest : public LoopTest {
 protected:
  OutputWatchTest()
      : watch_(
            loop(), nullptr,
            [this](uint32_t rank, const core::OutputProgress& progress) {
              told_.emplace_back(rank, progress.step);
            },
            [this] { return cpu_ += cost_; }) {}

  void Print(uint32_t rank, const std::string& text, int stream = 0) {
    watch_.Feed(rank, stream, text, now_);
  }

  Time now_ = seconds(1000);
  Duration cpu_{};
  Duration cost_{};  // of each look at the clock
  std::vector<std::pair<uint32_t, int64_t>> told_;
  OutputWatch watch_;
};

TEST_F(OutputWatchTest, TellsEachNewStepOfEachRankOnce) {
  Print(0, "step 1 loss 2\nstep 2 loss 2\n");
  Print(1, "step 5 loss 2\n");
  Print(1, "step 6 loss 2\n");
  Print(0, "step 2 loss 2\n");
  EXPECT_THAT(told_, ElementsAre(Pair(0, 2), Pair(1, 6)));
}

TEST_F(OutputWatchTest, JoinsThePiecesOfALineAndKeepsTheStreamsApart) {
  Print(0, "step 1 loss 2\nstep 2");
  Print(0, "step 9 lo", 1);
  Print(0, " loss 2\n");
  EXPECT_THAT(told_, ElementsAre(Pair(0, 2)));
}

TEST_F(OutputWatchTest, TakesALastLineWithoutAnEndWhenTheStreamEnds) {
  Print(0, "step 1 loss 2\nstep 2 loss 2");
  EXPECT_THAT(told_, IsEmpty());
  Print(0, "");
  EXPECT_THAT(told_, ElementsAre(Pair(0, 2)));
}

TEST_F(OutputWatchTest, ScansNoMoreOnceTheRankReportsByItself) {
  watch_.End(0);
  Print(0, "step 1 loss 2\nstep 2 loss 2\n");
  EXPECT_THAT(told_, IsEmpty());
  watch_.BeginGeneration();
  Print(0, "step 3 loss 2\nstep 4 loss 2\n");
  EXPECT_THAT(told_, ElementsAre(Pair(0, 4)));
}

TEST_F(OutputWatchTest, TellsTheFirstLineOfTheNextGeneration) {
  Print(0, "step 1 loss 2\nstep 2 loss 2\n");
  watch_.BeginGeneration();
  Print(0, "step 1 loss 2\n");
  EXPECT_THAT(told_, ElementsAre(Pair(0, 2), Pair(0, 1)));
}

TEST_F(OutputWatchTest, SkipsLinesOnceItHasUsedItsShareOfACore) {
  cost_ = OutputWatch::kMostSaved;
  Print(0, "step 1 loss 2\nstep 2 loss 2\n");
  EXPECT_EQ(watch_.skipped_lines(), 0u);
  Print(0, "step 3 loss 2\n");
  EXPECT_EQ(watch_.skipped_lines(), 1u);
  // A hundredth of the time that passes may be spent.
  now_ += seconds(1);
  Print(0, "step 4 loss 2\n");
  EXPECT_EQ(watch_.skipped_lines(), 1u);
  EXPECT_THAT(told_, ElementsAre(Pair(0, 2), Pair(0, 4)));
}

TEST_F(OutputWatchTest, TellsTheLastStateOfABarThatStandsStill) {
  now_ = BootTime();
  for (int i = 1; i <= 6; ++i) {
    Print(0, "\r" + std::to_string(i) + "0%|# | " + std::to_string(i) + "/10 [00:01<00:02, 4it/s]");
    if (i < 5) now_ += seconds(1);
  }
  ASSERT_TRUE(RunUntil([this] { return !told_.empty() && told_.back().second == 6; }));
}

}  // namespace
}  // namespace lockstep::agent
