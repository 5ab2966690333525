#include "worker/trainer/model/stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "tests/worker/trainer/model/random.h"
#include "worker/trainer/model/gpt.h"

namespace lockstep::trainer::stage_test {
namespace {

using testing::HasSubstr;

constexpr Shape kDeep = {.layers = 4, .heads = 3, .width = 48, .vocabulary = 61, .context = 70};
constexpr int kBatch = 2;
constexpr size_t kRows = 140;

TEST(StageTest, OwnsAPartOfTheArrayBetweenItsNeighboursParts) {
  for (const int count : {1, 2, 4}) {
    std::vector<Parameter> joined;
    size_t begin = 0;
    for (int i = 0; i < count; ++i) {
      const Stage stage{i, count};
      EXPECT_EQ(BeginOf(kDeep, stage), begin);
      for (Parameter parameter : Parameters(kDeep, stage)) {
        parameter.offset += begin;
        joined.push_back(parameter);
      }
      begin += OwnedCount(kDeep, stage);
      EXPECT_EQ(HeldCount(kDeep, stage) - OwnedCount(kDeep, stage),
                count > 1 && i == count - 1 ? HeadCount(kDeep) : 0);
    }
    EXPECT_EQ(begin, ParameterCount(kDeep));
    const std::vector<Parameter> whole = Parameters(kDeep);
    ASSERT_EQ(joined.size(), whole.size());
    for (size_t i = 0; i < whole.size(); ++i) {
      EXPECT_EQ(joined[i].name, whole[i].name);
      EXPECT_EQ(joined[i].offset, whole[i].offset);
      EXPECT_EQ(joined[i].size, whole[i].size);
    }
  }
}

TEST(StageTest, LayersThatCannotBeDealtOutAreRefusedWithTheStagesThatCould) {
  EXPECT_TRUE(CheckStages(kDeep, 4).ok());
  const Status refused = CheckStages(kDeep, 3);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(refused.error().message, HasSubstr("parallel.pipeline may be 1, 2, 4"));
  EXPECT_FALSE(CheckStages(kDeep, 0).ok());
}

TEST(StageTest, IsToldByItsLayers) {
  EXPECT_EQ(ToString(kDeep, {0, 2}), "stage 0 of 2 (the embeddings, layers 0 to 1)");
  EXPECT_EQ(ToString(kDeep, {3, 4}), "stage 3 of 4 (layer 3 and the head)");
}

// Two micro-batches through the stages, both forward before any goes backward, as in a pipeline.
TEST(StageTest, StagesTogetherHaveTheBitsOfTheWholeModel) {
  Random random(3);
  std::vector<float> parameters(ParameterCount(kDeep));
  InitialiseParameters(kDeep, 1, parameters);
  Threads threads(2);
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    if (!CheckPrecision(precision).ok()) continue;
    Gpt<float> whole(kDeep, kBatch, precision, threads);
    const Stage first_stage{0, 2};
    const Stage last_stage{1, 2};
    Gpt<float> first(kDeep, kBatch, precision, threads, first_stage, 2);
    Gpt<float> last(kDeep, kBatch, precision, threads, last_stage, 1);
    const size_t cut = OwnedCount(kDeep, first_stage);
    const auto low = std::span(parameters).first(cut);
    std::vector<float> high(parameters.begin() + static_cast<std::ptrdiff_t>(cut),
                            parameters.end());
    high.insert(high.end(), parameters.begin(),
                parameters.begin() + static_cast<std::ptrdiff_t>(HeadCount(kDeep)));
    std::vector<std::vector<int32_t>> inputs;
    std::vector<std::vector<int32_t>> targets;
    for (int i = 0; i < 2; ++i) {
      inputs.push_back(random.Tokens(kRows, kDeep.vocabulary));
      targets.push_back(random.Tokens(kRows, kDeep.vocabulary));
      EXPECT_EQ(first.Forward(low, inputs.back(), targets.back(), inputs.size() - 1), 0);
    }
    for (size_t i = 0; i < 2; ++i) {
      std::vector<float> expected(parameters.size(), std::numeric_limits<float>::quiet_NaN());
      std::vector<float> got = expected;
      const float loss = whole.Forward(parameters, inputs[i], targets[i]);
      whole.Backward(parameters, expected, [](size_t) {});

      const auto passed = first.Exit(i);
      std::copy(passed.begin(), passed.end(), last.Entry(0).begin());
      EXPECT_EQ(last.Forward(high, inputs[i], targets[i]), loss);
      size_t done = std::numeric_limits<size_t>::max();
      last.Backward(high, std::span(got).subspan(cut), [&](size_t from) { done = from; });
      EXPECT_EQ(done, 0U);
      const auto gradient = last.Gradient();
      std::copy(gradient.begin(), gradient.end(), first.Gradient().begin());
      const auto head = last.HeadGradient();
      std::copy(head.begin(), head.end(), got.begin());
      first.Backward(low, std::span(got).first(cut), [](size_t) {}, i);
      EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0) << i;
    }
  }
}

TEST(StageTest, HoldsLessThanTheWholeModel) {
  const auto bytes = [](const Stage& stage, int held) {
    return Gpt<float>::PredictActivationBytes(kDeep, kBatch, Precision::kFp32, stage, held);
  };
  EXPECT_LT(bytes({0, 4}, 2), bytes({}, 1));
  EXPECT_LT(bytes({1, 4}, 1), bytes({1, 4}, 3));
  Threads threads(1);
  const Gpt<float> model(kDeep, kBatch, Precision::kFp32, threads, {1, 4}, 3);
  EXPECT_EQ(model.ActivationBytes(), bytes({1, 4}, 3));
}

}  // namespace
}  // namespace lockstep::trainer::stage_test
