// Each layer on its own, in double: its backward pass against central differences of its forward.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/worker/trainer/model/random.h"
#include "worker/trainer/model/attention.h"
#include "worker/trainer/model/kernels.h"

namespace lockstep::trainer::layer_gradient_test {
namespace {

using Vector = std::vector<double>;

double Dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// That `gradient` is the slope of `f` at x, in every element: relative to the largest one.
void ExpectSlope(const Vector& gradient, Vector x, const std::function<double(const Vector&)>& f) {
  double largest = 0;
  for (const double g : gradient) largest = std::max(largest, std::abs(g));
  ASSERT_GT(largest, 0);
  for (size_t i = 0; i < x.size(); ++i) {
    const double saved = x[i];
    const auto at = [&](double step) {
      x[i] = saved + step;
      return f(x);
    };
    constexpr double kStep = 1e-3;
    const double slope =
        (8 * (at(kStep) - at(-kStep)) - (at(2 * kStep) - at(-2 * kStep))) / (12 * kStep);
    x[i] = saved;
    EXPECT_NEAR(gradient[i] / largest, slope / largest, 1e-6) << i;
  }
}

class LayerGradientTest : public testing::Test {
 protected:
  Random random_{11};
  const KernelTable<double, double>& kernels_ = CpuKernels<double, double>();
};

TEST_F(LayerGradientTest, OfLayerNorm) {
  constexpr size_t kRows = 3;
  constexpr size_t kWidth = 10;
  const auto x = random_.Numbers<double>(kRows * kWidth, 2);
  const auto weight = random_.Numbers<double>(kWidth, 1);
  const auto bias = random_.Numbers<double>(kWidth, 1);
  const auto dy = random_.Numbers<double>(kRows * kWidth, 1);
  const auto residual = random_.Numbers<double>(kRows * kWidth, 1);
  Vector mean(kRows);
  Vector rstd(kRows);
  const auto loss = [&](const Vector& input, const Vector& w, const Vector& b) {
    Vector y(input.size());
    kernels_.layer_norm(input.data(), {w.data(), b.data(), mean.data(), rstd.data()}, kRows, kWidth,
                        y.data());
    return Dot(y, dy) + Dot(residual, input);
  };
  loss(x, weight, bias);
  Vector dx(x.size());
  Vector dweight(kWidth);
  Vector dbias(kWidth);
  kernels_.layer_norm_backward(dy.data(), x.data(),
                               {weight.data(), bias.data(), mean.data(), rstd.data()}, kRows,
                               kWidth, residual.data(), dx.data(), dweight.data(), dbias.data());
  ExpectSlope(dx, x, [&](const Vector& at) { return loss(at, weight, bias); });
  ExpectSlope(dweight, weight, [&](const Vector& at) { return loss(x, at, bias); });
  ExpectSlope(dbias, bias, [&](const Vector& at) { return loss(x, weight, at); });
}

TEST_F(LayerGradientTest, OfGelu) {
  const auto x = random_.Numbers<double>(50, 4);
  const auto dy = random_.Numbers<double>(50, 1);
  Vector y(50);
  Vector slope(50);
  const auto loss = [&](const Vector& at) {
    kernels_.gelu(at.data(), at.size(), y.data(), slope.data());
    return Dot(y, dy);
  };
  loss(x);
  Vector dx(50);
  kernels_.scale_by(dy.data(), slope.data(), 50, dx.data());
  ExpectSlope(dx, x, loss);
}

TEST_F(LayerGradientTest, OfCrossEntropy) {
  constexpr size_t kRows = 4;
  constexpr size_t kWidth = 9;
  const auto logits = random_.Numbers<double>(kRows * kWidth, 3);
  const auto targets = random_.Tokens(kRows, kWidth);
  Vector gradient;
  const auto loss = [&](const Vector& at) {
    Vector losses(kRows);
    gradient = at;
    kernels_.cross_entropy(gradient.data(), targets.data(), kRows, kWidth, 0.25, losses.data());
    return 0.25 * Dot(losses, Vector(kRows, 1));
  };
  loss(logits);
  const Vector made = gradient;
  ExpectSlope(made, logits, loss);
}

// Over two blocks of queries, the second not full.
TEST_F(LayerGradientTest, OfAttention) {
  constexpr size_t kTokens = kQueryBlock + 3;
  constexpr size_t kDepth = 2;
  constexpr size_t kWidth = 4;  // two heads; the second is tried
  const auto qkv = random_.Numbers<double>(kTokens * 3 * kWidth, 1);
  const auto dy = random_.Numbers<double>(kTokens * kWidth, 1);
  Vector log_sum(kTokens);
  Vector scratch(kQueryBlock * (2 * kTokens + kDepth));
  const auto head = [&](const Vector& at) {
    return AttentionHead<double>{kTokens,        kDepth,        kWidth, at.data() + kDepth,
                                 log_sum.data(), scratch.data()};
  };
  const auto loss = [&](const Vector& at) {
    Vector y(kTokens * kWidth);
    Attend(kernels_, head(at), y.data() + kDepth);
    return Dot(y, dy);
  };
  loss(qkv);
  Vector dqkv(qkv.size());
  AttendBackward(kernels_, head(qkv), dy.data() + kDepth, dqkv.data() + kDepth);
  ExpectSlope(dqkv, qkv, loss);
}

}  // namespace
}  // namespace lockstep::trainer::layer_gradient_test
