#include "worker/trainer/model/decode.h"

#include <gtest/gtest.h>

#include "tests/worker/trainer/model/random.h"
#include "worker/trainer/model/gpt.h"

namespace lockstep::trainer::decode_test {
namespace {

constexpr Shape kShape = {.layers = 2, .heads = 3, .width = 48, .vocabulary = 211, .context = 70};

class DecoderTest : public testing::Test {
 protected:
  DecoderTest() : parameters_(ParameterCount(kShape)) {
    InitialiseParameters(kShape, 8, parameters_);
    for (float& parameter : parameters_) parameter *= 2;
  }

  std::vector<float> After(Decoder& decoder, std::span<const int32_t> tokens) {
    std::span<const float> logits;
    for (const int32_t token : tokens) logits = decoder.Step(token);
    return {logits.begin(), logits.end()};
  }

  Threads threads_{2};
  std::vector<float> parameters_;
  std::vector<int32_t> tokens_ = Random(4).Tokens(71, kShape.vocabulary);
};

TEST_F(DecoderTest, SaysWhatTheWholePassSays) {
  const auto inputs = std::span(tokens_).first(70);
  std::vector<float> logits(70 * 211);
  Gpt<float>(kShape, 1, Precision::kFp32, threads_).Logits(parameters_, inputs, logits);
  Decoder decoder(kShape, parameters_, threads_);
  for (size_t row = 0; row < 70; ++row) {
    const std::span<const float> step = decoder.Step(inputs[row]);
    for (size_t i = 0; i < 211; ++i) ASSERT_NEAR(step[i], logits[row * 211 + i], 1e-5) << row;
  }
}

TEST_F(DecoderTest, AfterResetKnowsNothing) {
  Decoder used(kShape, parameters_, threads_);
  After(used, tokens_);
  used.Reset();
  EXPECT_EQ(used.position(), 0U);
  Decoder fresh(kShape, parameters_, threads_);
  const auto few = std::span(tokens_).first(5);
  EXPECT_EQ(After(used, few), After(fresh, few));
}

TEST_F(DecoderTest, WhenFullGoesOnWithTheNewerHalf) {
  Decoder full(kShape, parameters_, threads_);
  const std::vector<float> logits = After(full, tokens_);
  EXPECT_EQ(full.position(), 36U);
  Decoder half(kShape, parameters_, threads_);
  EXPECT_EQ(logits, After(half, std::span(tokens_).last(36)));
}

TEST_F(DecoderTest, HasTheSameBitsOnAnyNumberOfThreads) {
  Threads one(1);
  Decoder a(kShape, parameters_, one);
  Decoder b(kShape, parameters_, threads_);
  EXPECT_EQ(After(a, tokens_), After(b, tokens_));
}

}  // namespace
}  // namespace lockstep::trainer::decode_test
