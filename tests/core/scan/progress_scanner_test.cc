#include "core/scan/progress_scanner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::core::progress_scanner_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;

std::string N(int64_t number) { return std::to_string(number); }

class ProgressScannerTest : public ::testing::Test {
 protected:
  void Scan(const std::string& line) { scanner_.Scan(line); }
  // -1: nothing is known.
  int64_t step() const { return scanner_.progress() ? scanner_.progress()->step : -1; }
  int64_t total() const { return scanner_.progress() ? scanner_.progress()->total : -1; }
  std::optional<double> loss() const {
    return scanner_.progress() ? scanner_.progress()->figures.loss : std::nullopt;
  }
  void Use(const std::vector<std::string>& patterns) {
    auto compiled = std::make_shared<std::vector<CompiledPattern>>();
    for (const std::string& pattern : patterns) {
      Result<CompiledPattern> one = CompileUserPattern(pattern);
      ASSERT_TRUE(one.ok()) << one.error().message;
      compiled->push_back(std::move(*one));
    }
    scanner_ = ProgressScanner({.patterns = compiled, .explain = true});
  }

  ProgressScanner scanner_{{.patterns = nullptr, .explain = true}};
};

// ---- belief ----

TEST_F(ProgressScannerTest, BelievesAStepWithALossFromItsSecondValue) {
  Scan("step 10 loss 2.5");
  EXPECT_EQ(step(), -1);
  Scan("step 20 loss 2.4");
  EXPECT_EQ(step(), 20);
  EXPECT_EQ(loss(), 2.4);
}

TEST_F(ProgressScannerTest, BelievesAStepWithAnotherFigureFromItsThirdValue) {
  Scan("step 1, 12.5 it/s");
  Scan("step 2, 12.5 it/s");
  EXPECT_EQ(step(), -1);
  Scan("step 3, 12.5 it/s");
  EXPECT_EQ(step(), 3);
}

TEST_F(ProgressScannerTest, BelievesNoStepWithoutAFigure) {
  for (int i = 1; i < 10; ++i) Scan("Step " + N(i) + "/12 : RUN make");
  EXPECT_EQ(step(), -1);
}

TEST_F(ProgressScannerTest, BelievesNoStepThatDoesNotGrow) {
  for (int i = 0; i < 10; ++i) Scan("step 7 loss 2.5");
  EXPECT_EQ(step(), -1);
}

TEST_F(ProgressScannerTest, BelievesALossThatStandsBelowItsStepFromTheThirdOn) {
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(step(), -1);
    Scan("[step=" + N(i * 10) + "/500]");
    Scan("    train/perplexity=9.1");
    Scan("    train/loss=2." + N(i));
  }
  EXPECT_EQ(step(), 30);
  EXPECT_EQ(total(), 500);
  EXPECT_EQ(loss(), 2.3);
}

TEST_F(ProgressScannerTest, LeavesOutLinesThatTellOfAnEvaluation) {
  for (int i = 1; i < 10; ++i) Scan("eval step " + N(i) + " loss 2.5");
  for (int i = 1; i < 10; ++i) Scan("Validation | step " + N(i) + " | loss 2.5");
  EXPECT_EQ(step(), -1);
}

TEST_F(ProgressScannerTest, KeepsTheLossOfTrainingWhereAnEvaluationPrintsIts) {
  Scan("step 10: train loss 2.5, val loss 9.5");
  Scan("step 20: train loss 2.4, val loss 9.4");
  Scan("step 30: val loss 9.3");
  EXPECT_EQ(step(), 20);  // the third has no loss of training, so it is no step of it
  EXPECT_EQ(loss(), 2.4);
}

TEST_F(ProgressScannerTest, ReadsALossThatIsNoNumber) {
  Scan("step 10 loss 2.5");
  Scan("step 20 loss nan");
  ASSERT_TRUE(loss().has_value());
  EXPECT_TRUE(std::isnan(*loss()));
  Scan("step 30 loss=inf");
  EXPECT_TRUE(std::isinf(*loss()));
}

// ---- order ----

TEST_F(ProgressScannerTest, PrefersASeriesWithALossToABar) {
  for (int i = 1; i < 6; ++i) {
    Scan(N(i) + "0%|#   | " + N(i * 10) + "/100 [00:10<00:12, 4.40it/s]");
    Scan("step " + N(i * 10 + 1) + " loss 2." + N(i));
  }
  EXPECT_EQ(step(), 51);
  EXPECT_EQ(total(), 100);  // the bar counts the same
}

TEST_F(ProgressScannerTest, PrefersAGlobalStepToTheStepOfAnEpoch) {
  for (int i = 1; i < 6; ++i) {
    Scan("epoch 2 step " + N(i) + " loss 2.5");
    Scan("global_step=" + N(100 + i) + " loss=2.5");
  }
  EXPECT_EQ(step(), 105);
}

TEST_F(ProgressScannerTest, PrefersTheUsersPatternToAllOthers) {
  Use({R"(done (?P<step>\d+) of (?P<total>\d+) items, error (?P<loss>[\d.]+))"});
  Scan("global_step=5 loss=1.0");
  Scan("global_step=6 loss=1.0");
  Scan("done 700 of 9000 items, error 0.25");
  Scan("global_step=7 loss=1.0");
  EXPECT_EQ(step(), 700);
  EXPECT_EQ(total(), 9000);
  EXPECT_EQ(loss(), 0.25);
}

// ---- epochs ----

TEST_F(ProgressScannerTest, CountsStepsOverEpochs) {
  for (int epoch = 1; epoch <= 3; ++epoch) {
    for (int i = 25; i <= 100; i += 25) {
      Scan("Epoch " + N(epoch) + "/10 step " + N(i) + "/100 loss 2.5");
    }
  }
  EXPECT_EQ(step(), 300);
  EXPECT_EQ(total(), 1000);
  EXPECT_TRUE(scanner_.progress()->derived);
}

TEST_F(ProgressScannerTest, LearnsTheLengthOfAnEpochThatIsNotPrinted) {
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int i = 0; i < 100; i += 10) {
      Scan("epoch " + N(epoch) + " batch " + N(i) + " loss 2.5");
    }
  }
  EXPECT_EQ(step(), 290);
}

TEST_F(ProgressScannerTest, AddsNothingToAStepThatGoesOnOverEpochs) {
  for (int i = 10; i <= 300; i += 10) {
    Scan("epoch " + N(i / 100) + " step " + N(i) + " loss 2.5");
  }
  EXPECT_EQ(step(), 300);
}

TEST_F(ProgressScannerTest, DoesNotGuessTheStepsOfEpochsThatItDidNotSee) {
  for (int i = 10; i <= 50; i += 10) Scan("epoch 7 step " + N(i) + " loss 2.5");
  EXPECT_EQ(step(), -1);
}

TEST_F(ProgressScannerTest, CountsABarThatBeginsAnewAsTheNextEpoch) {
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int i = 1; i <= 10; ++i) {
      Scan(N(i * 10) + "%|#### | " + N(i * 5) + "/50 [00:01<00:02, 4.4it/s, loss=2.5]");
    }
  }
  EXPECT_EQ(step(), 100);
}

TEST_F(ProgressScannerTest, TakesTheTotalFromALineOfItsOwn) {
  Scan("  Total optimization steps = 1,200");
  for (int i = 1; i < 4; ++i) Scan("step " + N(i) + " loss 2.5");
  EXPECT_EQ(total(), 1200);
}

// ---- back, and anew ----

TEST_F(ProgressScannerTest, IgnoresOneValueThatGoesBack) {
  for (int i = 1; i <= 5; ++i) Scan("step " + N(i * 10) + " loss 2.5");
  Scan("step 10 loss 2.5");
  EXPECT_EQ(step(), 50);
  Scan("step 60 loss 2.5");
  EXPECT_EQ(step(), 60);
}

TEST_F(ProgressScannerTest, FollowsACountThatBeginsAnewAndGrows) {
  for (int i = 1; i <= 5; ++i) Scan("step " + N(i * 10) + " loss 2.5");
  Scan("step 1 loss 2.5");
  Scan("step 2 loss 2.5");
  EXPECT_EQ(step(), 2);
}

TEST_F(ProgressScannerTest, BelievesTheFirstLineAfterARestart) {
  for (int i = 1; i <= 5; ++i) Scan("step " + N(i * 10) + " loss 2.5");
  scanner_.Restart();
  EXPECT_EQ(step(), -1);
  Scan("step 30 loss 2.5");
  EXPECT_EQ(step(), 30);
}

TEST_F(ProgressScannerTest, ForgetsAtARestartWhatItDidNotBelieve) {
  Scan("step 10 loss 2.5");
  scanner_.Restart();
  Scan("step 20 loss 2.5");
  EXPECT_EQ(step(), -1);
}

// ---- evaluations ----

TEST_F(ProgressScannerTest, TakesTheBarOfAnEvaluationForNoProgress) {
  for (int i = 1; i <= 10; ++i) Scan(N(i * 10) + "%|# | " + N(i) + "/10 [00:01<00:02, 4.4it/s]");
  Scan("{'eval_loss': 4.4, 'eval_runtime': 0.02}");
  EXPECT_EQ(step(), -1);
}

TEST_F(ProgressScannerTest, KeepsTheTrainingsBarBesideTheEvaluations) {
  for (int i = 1; i <= 3; ++i) Scan(N(i) + "%|# | " + N(i) + "/60 [00:01<00:02, 4.4it/s]");
  for (int i = 10; i <= 100; i += 10) {
    Scan(N(i) + "%|# | " + N(i) + "/100 [00:01<00:02, 4.4it/s]");
  }
  Scan("{'eval_loss': 4.4, 'eval_runtime': 0.02}");
  EXPECT_EQ(step(), 3);
  EXPECT_EQ(total(), 60);
}

// ---- bounds ----

TEST_F(ProgressScannerTest, FindsProgressBehindManySeriesThatAreNone) {
  for (int i = 0; i < 1000; ++i) {
    std::string word;
    for (int rest = i + 26; rest > 0; rest /= 26)
      word.push_back(static_cast<char>('a' + rest % 26));
    Scan(word + " step 5 loss 2.5");
  }
  Scan("train step 1 loss 2.5");
  Scan("train step 2 loss 2.5");
  EXPECT_EQ(step(), 2);
}

TEST_F(ProgressScannerTest, TakesNoStepThatIsTooLargeToCount) {
  for (int i = 1; i < 5; ++i) Scan("step 99999999999999" + N(i) + "99 loss 2.5");
  EXPECT_EQ(step(), -1);
  for (int i = 1; i < 5; ++i) {
    Scan("Epoch 99999999" + N(i) + "/999999999 step 99999999999999" + N(i) +
         "/999999999999999 loss 1");
  }
  EXPECT_LE(step(), 1'000'000'000'000'000);
}

// ---- the user's patterns ----

TEST(UserPatternTest, NamesWhatIsWrongWithAPattern) {
  const auto problem = [](const std::string& text) {
    const Result<CompiledPattern> pattern = CompileUserPattern(text);
    return pattern.ok() ? "" : pattern.error().message;
  };
  EXPECT_EQ(problem(R"(at (?P<step>\d+))"), "");
  EXPECT_THAT(problem(R"(at (?P<step>\d+)"), HasSubstr("is not a regular expression"));
  EXPECT_THAT(problem(R"(at \d+)"), HasSubstr("needs one of the groups step, epoch and loss"));
  EXPECT_THAT(problem(R"(at (?P<steps>\d+))"), HasSubstr("has the group steps; the groups are"));
  EXPECT_THAT(problem(""), HasSubstr("needs one of the groups"));
  EXPECT_THAT(problem(std::string(300, 'x')), HasSubstr("more than 256 bytes"));
}

// ---- explanations ----

TEST_F(ProgressScannerTest, ExplainsWhatItDoesNotBelieve) {
  for (int i = 1; i <= 3; ++i) Scan("step " + N(i) + " loss 2.5");
  for (int i = 1; i <= 3; ++i) Scan("eval step " + N(i) + " loss 2.5");
  for (int i = 1; i <= 3; ++i) Scan("Step " + N(i) + "/12 : RUN make");
  const std::vector<SeriesView> views = scanner_.Explain();
  EXPECT_TRUE(views.front().chosen);
  EXPECT_EQ(views.front().lines, 3u);
  EXPECT_THAT(views, Contains(AllOf(Field(&SeriesView::believed, false),
                                    Field(&SeriesView::why_not, HasSubstr("\"eval\"")))));
  EXPECT_THAT(views, Contains(AllOf(Field(&SeriesView::example, HasSubstr("RUN make")),
                                    Field(&SeriesView::why_not, HasSubstr("no figure")))));
}

}  // namespace
}  // namespace lockstep::core::progress_scanner_test
