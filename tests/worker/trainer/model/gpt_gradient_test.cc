// The gradient of each parameter of a tiny model in double against central differences of its loss.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/worker/trainer/model/random.h"
#include "worker/trainer/model/gpt.h"

namespace lockstep::trainer {
namespace {

class GptGradientTest : public testing::TestWithParam<Shape> {
 protected:
  static constexpr int kBatch = 2;

  GptGradientTest()
      : parameters_(random_.Numbers<double>(ParameterCount(shape_), 0.3)),
        inputs_(random_.Tokens(Rows(), shape_.vocabulary)),
        targets_(random_.Tokens(Rows(), shape_.vocabulary)),
        gradients_(parameters_.size(), std::nan("")),
        model_(shape_, kBatch, Precision::kFp32, threads_) {
    Loss();
    model_.Backward(parameters_, gradients_, [](size_t) {});
  }

  size_t Rows() const { return static_cast<size_t>(kBatch) * static_cast<size_t>(shape_.context); }

  double Loss() { return model_.Forward(parameters_, inputs_, targets_); }

  // Of fourth order, along `direction` from parameter `offset` on.
  double Difference(size_t offset, const std::vector<double>& direction) {
    const std::vector<double> saved = parameters_;
    const auto at = [&](double step) {
      for (size_t i = 0; i < direction.size(); ++i) {
        parameters_[offset + i] = saved[offset + i] + step * direction[i];
      }
      return Loss();
    };
    constexpr double kStep = 1e-3;
    const double near = at(kStep) - at(-kStep);
    const double far = at(2 * kStep) - at(-2 * kStep);
    parameters_ = saved;
    return (8 * near - far) / (12 * kStep);
  }

  Shape shape_ = GetParam();
  Random random_{7};
  std::vector<double> parameters_;
  std::vector<int32_t> inputs_;
  std::vector<int32_t> targets_;
  std::vector<double> gradients_;
  Threads threads_{1};
  Gpt<double> model_;
};

TEST_P(GptGradientTest, IsTheSlopeOfTheLossAlongEachParameter) {
  for (const Parameter& parameter : Parameters(shape_)) {
    const auto direction = random_.Numbers<double>(parameter.size, 1);
    double slope = 0;
    for (size_t i = 0; i < parameter.size; ++i) {
      slope += gradients_[parameter.offset + i] * direction[i];
    }
    const double difference = Difference(parameter.offset, direction);
    EXPECT_NEAR(slope / difference, 1, 1e-6) << parameter.name;
  }
}

TEST_P(GptGradientTest, IsRightInSingleElements) {
  double largest = 0;
  for (const double gradient : gradients_) largest = std::max(largest, std::abs(gradient));
  for (size_t i = 0; i < parameters_.size(); i += 1 + parameters_.size() / 101) {
    EXPECT_NEAR(gradients_[i], Difference(i, {1}), 1e-6 * largest) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, GptGradientTest,
                         testing::Values(Shape{2, 2, 8, 11, 5}, Shape{1, 3, 12, 7, 9}),
                         [](const auto& info) {
                           return "Width" + std::to_string(info.param.width);
                         });

}  // namespace
}  // namespace lockstep::trainer
