#include "core/scan/line_reader.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::core::line_reader_test {
namespace {

TEST(LineReaderTest, FindsTheLossInItsSpellings) {
  for (const char* line :
       {"loss 2.5", "loss: 2.5", "loss=2.5", "Loss (2.5)", "'loss': '2.5'", "\"train_loss\": 2.5,",
        "loss is 2.5", "loss: tensor(2.5, device='cuda:0')", "lm loss: 2.500000E+00 |",
        "train/CrossEntropyLoss=2.5", "train/CE loss=2.5", "Train loss/train/total: 2.5",
        "| loss                 | 2.5      |", "Avg. loss: 2.5", "loss train: 2.5, val: n/a",
        "val loss 9.9, train loss 2.5", "loss_cls: 0.5  loss: 2.5"}) {
    const LossSaid said = FindLoss(line);
    ASSERT_TRUE(said.whole.has_value()) << line;
    EXPECT_EQ(*said.whole, 2.5) << line;
  }
}

TEST(LineReaderTest, TakesAPartOfTheLossForASignOfTrainingOnly) {
  for (const char* line : {"Loss_D: 1.2", "value_loss = 0.5", "actor/pg_loss:-0.01",
                           "Value function loss: 0.0123", "[D loss: 0.5] [G loss: 1.2]"}) {
    EXPECT_TRUE(FindLoss(line).any) << line;
    EXPECT_FALSE(FindLoss(line).whole.has_value()) << line;
  }
}

TEST(LineReaderTest, TakesOtherLossesForNone) {
  for (const char* line :
       {"val_loss: 2.5", "eval loss 2.5", "Validation - loss: 2.5", "test_loss=2.5",
        "loss of 3 rows", "0% packet loss, time 3", "loss_scale: 4096", "nvcc -DLOSS=1 loss_2.cu",
        "--loss 0.5", "best_loss 2.5", "loss: 20%"}) {
    EXPECT_FALSE(FindLoss(line).any) << line;
  }
}

TEST(LineReaderTest, RemovesColorCodesAndCutsLongLines) {
  EXPECT_EQ(PlainLine("\x1b[1m12/40\x1b[0m \x1b]0;title\x07step\b"), "12/40 step");
  EXPECT_EQ(PlainLine(std::string(2000, 'x')).size(), kMaxScannedLine);
  EXPECT_EQ(PlainLine("\x1b"), "");
  EXPECT_EQ(PlainLine("\x1b["), "");
}

TEST(LineReaderTest, ReadsFiguresBesideTheStep) {
  const LineSaid said =
      ReadLine("step 12/500 | loss 2.5 | lr 3e-4 | grad_norm: 1.25 | 1,234 tok/s | mfu: 45.0%", {});
  ASSERT_TRUE(said.reading.has_value());
  EXPECT_EQ(said.reading->step, 12);
  EXPECT_EQ(said.reading->total, 500);
  EXPECT_EQ(said.figures.loss, 2.5);
  EXPECT_EQ(said.figures.learning_rate, 3e-4);
  EXPECT_EQ(said.figures.gradient_norm, 1.25);
  EXPECT_EQ(said.figures.tokens_per_second, 1234);
  EXPECT_EQ(said.figures.mfu, 0.45);
}

TEST(LineReaderTest, ANumberBetweenANameAndAUnitBelongsToOneOfThem) {
  const auto tokens = [](const char* line) { return ReadLine(line, {}).figures.tokens_per_second; };
  EXPECT_EQ(tokens("step 3 loss 0.5 tokens/s 400"), 400);
  EXPECT_EQ(tokens("step: 3 loss: 0.5 tokens/s: 400"), 400);
  EXPECT_EQ(tokens("step 3 loss 0.5 tok/sec/device: 1,400"), 1400);
  EXPECT_EQ(tokens("step 3 loss 0.5 400 tokens/s"), 400);
  EXPECT_EQ(tokens("step 3 loss 0.5, 400 tokens/s 0.2 s/step"), 400);
  EXPECT_EQ(tokens("step 3 speed 400 tokens/s 3.2 it/s"), 400);
  EXPECT_EQ(tokens("step 3 throughput: 400 tokens/s lr 0.1"), 400);
  EXPECT_EQ(tokens("step 3 train_speed: 400 tokens/s 17 GiB"), 400);
  EXPECT_EQ(tokens("step 3 | loss 2.1 | 12.3k tok/s | 45% MFU"), 12300);
  EXPECT_EQ(tokens("iter: 3 loss: 2.1 time: 120ms tokens/sec: 12.5K"), 12500);
  EXPECT_EQ(tokens("step 3 loss 2.1 1.5M tokens/s"), 1.5e6);
  EXPECT_EQ(tokens("step 3 loss=2.1, tok/s | 45% MFU"), std::nullopt);
  const auto samples = [](const char* line) {
    return ReadLine(line, {}).figures.samples_per_second;
  };
  EXPECT_EQ(samples("step 3 time 0.2 samples/s 55.5"), 55.5);
  EXPECT_EQ(samples("step 3 loss 0.5 it/s 3.2 samples/s 410"), 410);
  EXPECT_EQ(samples("step 3 loss 0.5 410 samples/s"), 410);
  EXPECT_EQ(samples("steps: 3 loss: 5.36 iter time (s): 0.512 samples/sec: 62.500"), 62.5);
}

TEST(LineReaderTest, GivesLinesOfOnePrintStatementOneSkeleton) {
  const auto skeleton = [](const char* line) {
    const LineSaid said = ReadLine(line, {});
    return said.reading ? said.reading->skeleton : std::string("none");
  };
  EXPECT_EQ(skeleton("2025-03-04 10:11:12,123 lr 1e-05 x -0.5 step 3 loss 2"),
            skeleton("2025-03-05 01:02:03,9 lr 0.1 x 0.5 step 4 loss 2"));
  EXPECT_NE(skeleton("a step 3 loss 2"), skeleton("b step 3 loss 2"));
}

}  // namespace
}  // namespace lockstep::core::line_reader_test
