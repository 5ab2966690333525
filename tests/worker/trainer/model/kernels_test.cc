// Each instruction set's kernels in float and bf16 against the baseline's in double.
#include "worker/trainer/model/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "tests/worker/trainer/model/random.h"

namespace lockstep::trainer::kernels_test {
namespace {

struct Target {
  const char* name;
  const KernelTable<float, float>* fp32;
  const KernelTable<float, Bf16>* bf16;
};

std::vector<Target> Targets() {
  std::vector<Target> targets = {
      {"baseline", &BaselineKernels<float, float>(), &BaselineKernels<float, Bf16>()}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("x86-64-v3")) {
    targets.push_back({"v3", &V3Kernels<float, float>(), &V3Kernels<float, Bf16>()});
  }
  if (__builtin_cpu_supports("x86-64-v4")) {
    targets.push_back({"v4", &V4Kernels<float, float>(), &V4Kernels<float, Bf16>()});
  }
#endif
  return targets;
}

class KernelsTest : public testing::TestWithParam<Target> {
 protected:
  const KernelTable<float, float>& fp32_ = *GetParam().fp32;
  const KernelTable<float, Bf16>& bf16_ = *GetParam().bf16;
  Random random_{23};
};

TEST_P(KernelsTest, GeluIsExactToSevenDigitsAndSaturates) {
  auto x = random_.Numbers<float>(1003, 12);
  x[0] = -1e6F;
  x[1] = 1e6F;
  std::vector<float> y(x.size());
  std::vector<float> slope(x.size());
  fp32_.gelu(x.data(), x.size(), y.data(), slope.data());
  EXPECT_NEAR(y[0], 0, 1e-20);
  EXPECT_NEAR(slope[0], 0, 1e-10);
  EXPECT_EQ(y[1], 1e6F);
  EXPECT_EQ(slope[1], 1);
  for (size_t i = 2; i < x.size(); ++i) {
    const double v = x[i];
    const double u = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
    EXPECT_NEAR(y[i], 0.5 * v * (1 + std::tanh(u)), 1e-6 + 3e-7 * std::abs(v)) << v;
  }
}

TEST_P(KernelsTest, CrossEntropyIsThatOfDouble) {
  constexpr size_t kWidth = 77;
  auto logits = random_.Numbers<float>(3 * kWidth, 20);
  const std::vector<float> given = logits;
  const std::vector<int32_t> targets = {0, 40, 76};
  std::vector<float> losses(3);
  fp32_.cross_entropy(logits.data(), targets.data(), 3, kWidth, 1, losses.data());
  for (size_t row = 0; row < 3; ++row) {
    double sum = 0;
    for (size_t i = 0; i < kWidth; ++i) sum += std::exp(given[row * kWidth + i]);
    const auto target = static_cast<size_t>(targets[row]);
    EXPECT_NEAR(losses[row], std::log(sum) - given[row * kWidth + target], 1e-5);
    for (size_t i = 0; i < kWidth; ++i) {
      const double p = std::exp(given[row * kWidth + i]) / sum;
      EXPECT_NEAR(logits[row * kWidth + i], p - (i == target ? 1 : 0), 1e-6);
    }
  }
}

TEST_P(KernelsTest, NotANumberStaysNone) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> logits(40, 1);
  logits[33] = nan;
  const int32_t target = 2;
  float loss = 0;
  fp32_.cross_entropy(logits.data(), &target, 1, logits.size(), 1, &loss);
  EXPECT_TRUE(std::isnan(loss));
  std::vector<float> y(20);
  std::vector<float> slope(20, nan);
  fp32_.gelu(slope.data(), 20, y.data(), slope.data());
  for (const float v : y) EXPECT_TRUE(std::isnan(v));
}

TEST_P(KernelsTest, Bf16IsRoundedToTheNearestEven) {
  const std::vector<float> x = {1.0F,
                                1.00390625F,
                                1.01171875F,
                                -3.14159274F,
                                std::numeric_limits<float>::infinity(),
                                std::numeric_limits<float>::quiet_NaN()};
  std::vector<Bf16> y(x.size());
  bf16_.convert(x.data(), x.size(), 1, x.size(), y.data(), y.size());
  EXPECT_EQ(ToFloat(y[0]), 1.0F);
  EXPECT_EQ(ToFloat(y[1]), 1.0F);       // halfway, down to even
  EXPECT_EQ(ToFloat(y[2]), 1.015625F);  // halfway, up to even
  EXPECT_EQ(ToFloat(y[3]), -3.140625F);
  EXPECT_EQ(ToFloat(y[4]), x[4]);
  EXPECT_TRUE(std::isnan(ToFloat(y[5])));
}

TEST_P(KernelsTest, TransposeTurnsRowsIntoColumns) {
  constexpr size_t kRows = 37;
  constexpr size_t kWidth = 21;
  const auto x = random_.Numbers<float>(kRows * kWidth, 1);
  std::vector<float> y(x.size());
  fp32_.transpose(x.data(), kWidth, kRows, kWidth, y.data(), kRows);
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t i = 0; i < kWidth; ++i) EXPECT_EQ(y[i * kRows + row], x[row * kWidth + i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, KernelsTest, testing::ValuesIn(Targets()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace lockstep::trainer::kernels_test
