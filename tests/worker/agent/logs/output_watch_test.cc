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
              if (progress.said.loss) losses_.emplace_back(progress.step, *progress.said.loss);
              if (progress.said.gradient_norm) norms_.push_back(*progress.said.gradient_norm);
            },
            [this] { return cpu_ += cost_; }) {}

  void Print(uint32_t rank, const std::string& text, int stream = 0) {
    watch_.Feed(rank, stream, text, now_);
  }

  Time now_ = seconds(1000);
  Duration cpu_{};
  Duration cost_{};  // of each look at the clock
  std::vector<std::pair<uint32_t, int64_t>> told_;
  std::vector<std::pair<int64_t, double>> losses_;  // each with its step, as they are judged
  std::vector<double> norms_;
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

TEST_F(OutputWatchTest, TellsALossOnceAndNotAgainAtEachLaterStepOfABar) {
  const auto bar = [this](int step) {
    now_ += seconds(1);
    Print(0, "\r65%|# | " + std::to_string(step) + "/900 [00:01<00:02, 4it/s]");
  };
  for (int step = 590; step <= 600; ++step) bar(step);
  Print(0, "\n{'loss': 11.0, 'learning_rate': 0.1}\n");
  for (int step = 601; step <= 700; ++step) bar(step);
  ASSERT_FALSE(told_.empty());
  EXPECT_THAT(told_.back(), Pair(0, 699)) << "the last state waits for the next one";
  EXPECT_THAT(losses_, ElementsAre(Pair(600, 11.0)));
}

TEST_F(OutputWatchTest, TellsALossBelowItsStepThoughItIsTheOneBefore) {
  Print(0, "step 1 of 9\nloss: 2.0\nstep 2 of 9\nloss: 2.0\nstep 3 of 9\nloss: 2.0\n");
  Print(0, "saving\n");
  Print(0, "step 4 of 9\nloss: 2.0\n");
  ASSERT_GE(losses_.size(), 2U);
  EXPECT_THAT(losses_[losses_.size() - 2], Pair(3, 2.0));
  EXPECT_THAT(losses_.back(), Pair(4, 2.0));
}

TEST_F(OutputWatchTest, TellsEachFigureThatChangesAtOneStep) {
  Print(0, "step 1 loss 2\nstep 2 loss 2 grad_norm 1\nstep 2 loss 2 grad_norm 40\n");
  EXPECT_THAT(norms_, ElementsAre(1, 40));
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
