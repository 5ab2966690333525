#include "worker/trainer/model/gpt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/worker/trainer/model/random.h"

namespace lockstep::trainer {
namespace {

constexpr Shape kSmall = {.layers = 2, .heads = 3, .width = 48, .vocabulary = 61, .context = 70};
constexpr int kBatch = 3;
constexpr size_t kRows = 210;

struct Outcome {
  float loss = 0;
  std::vector<float> gradients;
  std::vector<float> logits;
};

class GptTest : public testing::Test {
 protected:
  GptTest() : parameters_(ParameterCount(kSmall)) {
    InitialiseParameters(kSmall, 1, parameters_);
    for (float& parameter : parameters_) parameter *= 3;
  }

  Outcome Run(int threads, Precision precision) {
    Threads pool(threads);
    Gpt<float> model(kSmall, kBatch, precision, pool);
    Outcome outcome;
    outcome.gradients.assign(parameters_.size(), std::numeric_limits<float>::quiet_NaN());
    outcome.logits.resize(kRows * 61);
    outcome.loss = model.Forward(parameters_, inputs_, targets_);
    model.Backward(parameters_, outcome.gradients, [](size_t) {});
    model.Logits(parameters_, inputs_, outcome.logits);
    return outcome;
  }

  static bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }

  Random random_{3};
  std::vector<float> parameters_;
  std::vector<int32_t> inputs_ = random_.Tokens(kRows, kSmall.vocabulary);
  std::vector<int32_t> targets_ = random_.Tokens(kRows, kSmall.vocabulary);
};

TEST_F(GptTest, HasTheSameBitsOnAnyNumberOfThreads) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    if (!CheckPrecision(precision).ok()) continue;
    const Outcome one = Run(1, precision);
    for (const int threads : {2, 3, 5}) {
      const Outcome many = Run(threads, precision);
      EXPECT_EQ(one.loss, many.loss);
      EXPECT_TRUE(SameBits(one.gradients, many.gradients)) << threads;
      EXPECT_TRUE(SameBits(one.logits, many.logits)) << threads;
    }
  }
}

TEST_F(GptTest, HasTheSameBitsWhateverRanBefore) {
  Threads pool(2);
  Gpt<float> model(kSmall, kBatch, Precision::kFp32, pool);
  std::vector<float> gradients(parameters_.size());
  std::vector<float> others = random_.Numbers<float>(parameters_.size(), 0.5);
  model.Forward(others, targets_, inputs_);
  model.Backward(others, gradients, [](size_t) {});
  const float loss = model.Forward(parameters_, inputs_, targets_);
  model.Backward(parameters_, gradients, [](size_t) {});
  const Outcome fresh = Run(1, Precision::kFp32);
  EXPECT_EQ(loss, fresh.loss);
  EXPECT_TRUE(SameBits(gradients, fresh.gradients));
}

TEST_F(GptTest, CompletesTheGradientFromItsEndToItsBeginning) {
  Threads pool(1);
  Gpt<float> model(kSmall, kBatch, Precision::kFp32, pool);
  const std::vector<float> final = Run(1, Precision::kFp32).gradients;
  std::vector<float> gradients(parameters_.size());
  size_t last = gradients.size();
  int calls = 0;
  model.Forward(parameters_, inputs_, targets_);
  model.Backward(parameters_, gradients, [&](size_t from) {
    EXPECT_LT(from, last);
    EXPECT_TRUE(std::equal(gradients.begin() + static_cast<ptrdiff_t>(from),
                           gradients.begin() + static_cast<ptrdiff_t>(last),
                           final.begin() + static_cast<ptrdiff_t>(from)));
    last = from;
    ++calls;
  });
  EXPECT_EQ(last, 0U);
  EXPECT_EQ(calls, 2 + 2 * kSmall.layers);
}

TEST_F(GptTest, InFloatIsCloseToDouble) {
  const std::vector<double> parameters(parameters_.begin(), parameters_.end());
  std::vector<double> gradients(parameters.size());
  Threads pool(2);
  Gpt<double> model(kSmall, kBatch, Precision::kFp32, pool);
  const double loss = model.Forward(parameters, inputs_, targets_);
  model.Backward(parameters, gradients, [](size_t) {});
  const Outcome outcome = Run(2, Precision::kFp32);
  EXPECT_NEAR(outcome.loss, loss, 1e-5);
  for (const Parameter& p : Parameters(kSmall)) {
    double error = 0;
    double size = 0;
    for (size_t i = p.offset; i < p.offset + p.size; ++i) {
      error += std::pow(gradients[i] - static_cast<double>(outcome.gradients[i]), 2);
      size += std::pow(gradients[i], 2);
    }
    EXPECT_LT(std::sqrt(error / size), 1e-5) << p.name;
  }
}

TEST_F(GptTest, InBf16IsCloseToFloat) {
  if (!CheckPrecision(Precision::kBf16).ok()) GTEST_SKIP() << "no bf16 on this CPU";
  const Outcome bf16 = Run(2, Precision::kBf16);
  const Outcome fp32 = Run(2, Precision::kFp32);
  EXPECT_NE(bf16.loss, fp32.loss);
  EXPECT_NEAR(bf16.loss, fp32.loss, 0.01);
  for (const Parameter& p : Parameters(kSmall)) {
    double error = 0;
    double size = 0;
    for (size_t i = p.offset; i < p.offset + p.size; ++i) {
      error += std::pow(bf16.gradients[i] - fp32.gradients[i], 2);
      size += std::pow(fp32.gradients[i], 2);
    }
    EXPECT_LT(std::sqrt(error / size), 0.05) << p.name;
  }
}

TEST_F(GptTest, LossIsTheMeanCrossEntropyOfItsLogits) {
  const Outcome outcome = Run(1, Precision::kFp32);
  const auto width = static_cast<size_t>(kSmall.vocabulary);
  double loss = 0;
  for (size_t row = 0; row < kRows; ++row) {
    double sum = 0;
    for (size_t i = 0; i < width; ++i) sum += std::exp(outcome.logits[row * width + i]);
    loss += std::log(sum) - outcome.logits[row * width + static_cast<size_t>(targets_[row])];
  }
  EXPECT_NEAR(outcome.loss, loss / static_cast<double>(kRows), 1e-6);
}

TEST_F(GptTest, SeesNoTokenThatIsYetToCome) {
  const Outcome before = Run(1, Precision::kFp32);
  inputs_[69] = (inputs_[69] + 1) % kSmall.vocabulary;  // the last of the first sequence
  const Outcome after = Run(1, Precision::kFp32);
  const size_t changed = 69 * 61;
  EXPECT_TRUE(
      std::equal(before.logits.begin(), before.logits.begin() + changed, after.logits.begin()));
  EXPECT_FALSE(std::equal(before.logits.begin() + changed, before.logits.begin() + changed + 61,
                          after.logits.begin() + changed));
}

TEST_F(GptTest, ALossThatIsNoNumberIsSeen) {
  parameters_[5] = std::numeric_limits<float>::quiet_NaN();
  std::fill(inputs_.begin(), inputs_.end(), 0);
  EXPECT_TRUE(std::isnan(Run(1, Precision::kFp32).loss));
  parameters_[5] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(std::isfinite(Run(1, Precision::kFp32).loss));
}

TEST_F(GptTest, PredictsItsMemory) {
  Threads pool(1);
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    const Gpt<float> model(kSmall, kBatch, precision, pool);
    EXPECT_EQ(model.ActivationBytes(),
              Gpt<float>::PredictActivationBytes(kSmall, kBatch, precision));
  }
}

TEST(InstructionSetTest, NamesProductsAndKernels) {
  EXPECT_NE(InstructionSet().find('+'), std::string::npos);
}

}  // namespace
}  // namespace lockstep::trainer
