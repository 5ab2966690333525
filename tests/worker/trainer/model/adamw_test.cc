#include "worker/trainer/model/adamw.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/worker/trainer/model/random.h"
#include "worker/trainer/model/stage.h"

namespace lockstep::trainer {
namespace {

constexpr Shape kShape = {.layers = 2, .heads = 2, .width = 24, .vocabulary = 33, .context = 7};

class AdamWTest : public testing::Test {
 protected:
  struct Model {
    std::vector<float> parameters;
    std::vector<float> moment1;
    std::vector<float> moment2;
    bool operator==(const Model&) const = default;
  };

  Model Fresh() const { return {start_, std::vector<float>(count_), std::vector<float>(count_)}; }

  // Three steps, each in slices of `slice` elements.
  Model Train(int threads, size_t slice) const {
    Threads pool(threads);
    Model model = Fresh();
    for (int64_t t = 1; t <= 3; ++t) {
      for (size_t first = 0; first < count_; first += slice) {
        const size_t n = std::min(slice, count_ - first);
        AdamWStep(layout_, first, std::span(model.parameters).subspan(first, n),
                  std::span(gradients_).subspan(first, n),
                  std::span(model.moment1).subspan(first, n),
                  std::span(model.moment2).subspan(first, n), t, 1e-2, 0.25, options_, pool);
      }
    }
    return model;
  }

  size_t count_ = ParameterCount(kShape);
  std::vector<Parameter> layout_ = Parameters(kShape);
  Random random_{5};
  std::vector<float> start_ = random_.Numbers<float>(count_, 1);
  std::vector<float> gradients_ = random_.Numbers<float>(count_, 1);
  AdamWOptions options_;
};

TEST_F(AdamWTest, FollowsTheFormula) {
  const Model model = Train(1, count_);
  for (const Parameter& p : layout_) {
    const double decay = p.decays ? options_.weight_decay : 0;
    for (size_t i = p.offset; i < p.offset + p.size; ++i) {
      double x = start_[i];
      double m = 0;
      double v = 0;
      for (int t = 1; t <= 3; ++t) {
        const double g = gradients_[i] * 0.25;
        m = 0.9 * m + 0.1 * g;
        v = 0.95 * v + 0.05 * g * g;
        const double m_hat = m / (1 - std::pow(0.9, t));
        const double v_hat = v / (1 - std::pow(0.95, t));
        x -= 1e-2 * (m_hat / (std::sqrt(v_hat) + 1e-8) + decay * x);
      }
      ASSERT_NEAR(model.parameters[i], x, 2e-6) << p.name;
    }
  }
}

TEST_F(AdamWTest, HasTheSameBitsOnAnyThreadsAndInAnySlices) {
  const Model whole = Train(1, count_);
  EXPECT_EQ(whole, Train(3, count_));
  EXPECT_EQ(whole, Train(2, 1000));
  EXPECT_EQ(whole, Train(1, 7));
}

TEST(SumOfSquaresTest, IsTheSumWhateverTheThreads) {
  const auto values = Random(9).Numbers<float>(100'003, 1);
  double expected = 0;
  for (const float v : values) expected += 0.25 * v * v;
  Threads one(1);
  Threads three(3);
  const double sum = SumOfSquares(values, 0.5, one);
  EXPECT_NEAR(sum / expected, 1, 1e-12);
  EXPECT_EQ(sum, SumOfSquares(values, 0.5, three));
  EXPECT_EQ(SumOfSquares({}, 1, one), 0);
}

TEST(SquaresOfTest, OfStagesAreThoseOfTheModelOneBehindTheOther) {
  constexpr Shape kDeep = {.layers = 4, .heads = 2, .width = 40, .vocabulary = 500, .context = 9};
  Threads threads(2);
  const auto values = Random(9).Numbers<float>(ParameterCount(kDeep), 1);
  const std::vector<double> whole = SquaresOf(Parameters(kDeep), values, threads);
  EXPECT_EQ(whole.size(), PieceCount(Parameters(kDeep)));
  EXPECT_NEAR(TreeSum(whole) / SumOfSquares(values, 1, threads), 1, 1e-12);
  for (const int count : {2, 4}) {
    std::vector<double> stages;
    for (int i = 0; i < count; ++i) {
      const Stage stage{i, count};
      const auto part = std::span(values).subspan(BeginOf(kDeep, stage), OwnedCount(kDeep, stage));
      for (const double square : SquaresOf(Parameters(kDeep, stage), part, threads)) {
        stages.push_back(square);
      }
    }
    EXPECT_EQ(stages, whole);
  }
}

TEST(LearningRateTest, WarmsUpThenFallsAlongACosineToATenth) {
  EXPECT_DOUBLE_EQ(LearningRate(1, 1.0, 10, 110), 0.1);
  EXPECT_DOUBLE_EQ(LearningRate(5, 1.0, 10, 110), 0.5);
  EXPECT_DOUBLE_EQ(LearningRate(10, 1.0, 10, 110), 1.0);
  EXPECT_DOUBLE_EQ(LearningRate(60, 1.0, 10, 110), 0.55);
  EXPECT_DOUBLE_EQ(LearningRate(110, 1.0, 10, 110), 0.1);
  EXPECT_DOUBLE_EQ(LearningRate(500, 1.0, 10, 110), 0.1);
}

TEST(LearningRateTest, WithoutWarmUpBeginsAtThePeak) {
  EXPECT_NEAR(LearningRate(1, 2.0, 0, 1000), 2.0, 1e-4);
}

}  // namespace
}  // namespace lockstep::trainer
