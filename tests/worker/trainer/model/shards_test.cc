#include "worker/trainer/model/shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <thread>

#include "tests/worker/trainer/model/random.h"
#include "worker/trainer/model/adamw.h"
#include "worker/trainer/model/gpt.h"

namespace lockstep::trainer::shards_test {
namespace {

using testing::HasSubstr;

constexpr Shape kShape = {.layers = 2, .heads = 4, .width = 48, .vocabulary = 61, .context = 70};
constexpr int kBatch = 2;
constexpr size_t kRows = 140;

// What one micro-batch gives, in the order of the model's array.
struct Pass {
  float loss = 0;
  std::vector<float> gradients;
};

// The sum of what the ranks of a group bring, as a balanced tree, as AllReduceWithin makes it.
class Sum {
 public:
  explicit Sum(size_t ranks) : parts_(ranks), barrier_(static_cast<std::ptrdiff_t>(ranks)) {}

  void Add(size_t rank, std::span<float> sum) {
    parts_[rank].assign(sum.begin(), sum.end());
    barrier_.arrive_and_wait();
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = Tree(i, 0, parts_.size());
    barrier_.arrive_and_wait();
  }

 private:
  float Tree(size_t i, size_t first, size_t count) const {
    if (count == 1) return parts_[first][i];
    return Tree(i, first, count / 2) + Tree(i, first + count / 2, count / 2);
  }

  std::vector<std::vector<float>> parts_;
  std::barrier<> barrier_;
};

class ShardsTest : public testing::Test {
 protected:
  ShardsTest() : parameters_(ParameterCount(kShape)) {
    InitialiseParameters(kShape, 1, parameters_);
    Random random(3);
    inputs_ = random.Tokens(kRows, kShape.vocabulary);
    targets_ = random.Tokens(kRows, kShape.vocabulary);
  }

  // By so many ranks, each a thread with a model of its own, that share a layer's shards.
  Pass Run(int ranks, int shards, Precision precision, int threads_of_each = 1) const {
    Pass pass{0, std::vector<float>(parameters_.size(), std::numeric_limits<float>::quiet_NaN())};
    Sum sum(static_cast<size_t>(ranks));
    std::vector<std::vector<float>> gradients(static_cast<size_t>(ranks));
    std::vector<float> losses(gradients.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < gradients.size(); ++rank) {
      threads.emplace_back([&, rank] {
        const Stage stage = StageOf(static_cast<int>(rank), ranks, shards);
        std::vector<float> part(OwnedCount(kShape, stage));
        TakePart(kShape, stage, parameters_, part);
        Threads own(threads_of_each);
        Gpt<float> model(kShape, kBatch, precision, own, stage, 1,
                         [&](std::span<float> values) { sum.Add(rank, values); });
        losses[rank] = model.Forward(part, inputs_, targets_);
        gradients[rank].assign(part.size(), std::numeric_limits<float>::quiet_NaN());
        model.Backward(part, gradients[rank], [](size_t) {});
      });
    }
    for (std::thread& thread : threads) thread.join();
    pass.loss = losses.front();
    for (size_t rank = 0; rank < gradients.size(); ++rank) {
      EXPECT_EQ(losses[rank], pass.loss);
      PutPart(kShape, StageOf(static_cast<int>(rank), ranks, shards), gradients[rank],
              pass.gradients);
    }
    return pass;
  }

  static Stage StageOf(int rank, int ranks, int shards) { return {0, 1, {rank, ranks, shards}}; }

  static bool SameBits(const Pass& a, const Pass& b) {
    return a.loss == b.loss && std::memcmp(a.gradients.data(), b.gradients.data(),
                                           a.gradients.size() * sizeof(float)) == 0;
  }

  std::vector<float> parameters_;
  std::vector<int32_t> inputs_;
  std::vector<int32_t> targets_;
};

TEST_F(ShardsTest, AnyNumberOfRanksHasTheBitsOfOneThatHasAllShards) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    if (!CheckPrecision(precision).ok()) continue;
    for (const int shards : {2, 4}) {
      const Pass alone = Run(1, shards, precision);
      for (int ranks = 2; ranks <= shards; ranks *= 2) {
        EXPECT_TRUE(SameBits(Run(ranks, shards, precision), alone)) << ranks << " of " << shards;
      }
      EXPECT_TRUE(SameBits(Run(1, shards, precision, 3), alone)) << "by three threads";
    }
  }
}

TEST_F(ShardsTest, TogetherAreTheWholeModelButForRounding) {
  const Pass whole = Run(1, 1, Precision::kFp32);
  const Pass sharded = Run(2, 4, Precision::kFp32);
  EXPECT_NEAR(sharded.loss, whole.loss, 1e-5);
  for (const Parameter& parameter : Parameters(kShape)) {
    double difference = 0;
    double size = 0;
    for (size_t i = parameter.offset; i < parameter.offset + parameter.size; ++i) {
      difference += std::pow(double{sharded.gradients[i]} - double{whole.gradients[i]}, 2);
      size += std::pow(double{whole.gradients[i]}, 2);
    }
    EXPECT_LT(std::sqrt(difference), 1e-4 * std::sqrt(size)) << parameter.name;
  }
}

TEST_F(ShardsTest, PartsOfAllRanksAreTheWholeModelAndComeBackAsTheyWere) {
  std::vector<float> numbered(ParameterCount(kShape));
  std::iota(numbered.begin(), numbered.end(), 0.0F);
  std::vector<float> back(numbered.size(), -1.0F);
  for (int stage = 0; stage < 2; ++stage) {
    for (int rank = 0; rank < 2; ++rank) {
      const Stage of{stage, 2, {rank, 2, 4}};
      std::vector<float> part(OwnedCount(kShape, of));
      TakePart(kShape, of, numbered, part);
      EXPECT_LT(part.size(), OwnedCount(kShape, Stage{stage, 2}));
      PutPart(kShape, of, part, back);
    }
  }
  EXPECT_EQ(back, numbered);
}

// c_attn's columns are q, k and v of all heads: a shard has the three of its heads.
TEST_F(ShardsTest, AShardHasQueryKeyAndValueOfItsHeads) {
  std::vector<float> columns(ParameterCount(kShape));
  const Parameter bias = Parameters(kShape)[5];
  ASSERT_EQ(bias.name, "transformer.h.0.attn.c_attn.bias");
  for (size_t i = 0; i < bias.size; ++i) columns[bias.offset + i] = static_cast<float>(i);
  const Stage last = StageOf(3, 4, 4);
  std::vector<float> part(OwnedCount(kShape, last));
  TakePart(kShape, last, columns, part);
  const Parameter own = Parameters(kShape, last)[5];
  ASSERT_EQ(own.size, 36U);
  for (const size_t i : {0U, 11U}) {
    EXPECT_EQ(part[own.offset + i], static_cast<float>(36 + i));
    EXPECT_EQ(part[own.offset + 12 + i], static_cast<float>(48 + 36 + i));
    EXPECT_EQ(part[own.offset + 24 + i], static_cast<float>(96 + 36 + i));
  }
}

TEST_F(ShardsTest, SquaresOfAllRanksAreThoseOfOneInItsOrder) {
  Random random(5);
  const std::vector<float> values = random.Numbers<float>(ParameterCount(kShape), 1);
  Threads threads(2);
  const auto squares = [&](const Stage& stage) {
    std::vector<float> part(OwnedCount(kShape, stage));
    TakePart(kShape, stage, values, part);
    const std::vector<Parameter> layout = Parameters(kShape, stage);
    std::vector<double> found = SquaresOf(layout, part, threads);
    EXPECT_EQ(found.size(), PieceCount(layout));
    return found;
  };
  const std::vector<double> alone = squares(StageOf(0, 1, 4));
  std::vector<std::vector<double>> of_ranks;
  std::vector<std::span<const double>> spans;
  for (int rank = 0; rank < 2; ++rank) of_ranks.push_back(squares(StageOf(rank, 2, 4)));
  for (const std::vector<double>& of_rank : of_ranks) spans.emplace_back(of_rank);
  EXPECT_EQ(JoinPieces(kShape, StageOf(0, 2, 4), spans), alone);
}

TEST_F(ShardsTest, WhatCannotBeCutIsRefusedWithWhatCould) {
  const auto says = [](int ranks, int shards) {
    const Status checked = CheckShards(kShape, {0, ranks, shards});
    return checked.ok() ? "" : checked.error().message;
  };
  EXPECT_EQ(says(2, 4), "");
  EXPECT_EQ(says(1, 1), "");
  EXPECT_THAT(says(1, 8), HasSubstr("4 heads cannot be divided into 8 shards"));
  EXPECT_THAT(says(1, 3), HasSubstr("parallel.tensorShards may be 1, 2, 4"));
  EXPECT_THAT(
      says(4, 2),
      HasSubstr("2 shards of a layer cannot be divided evenly among 4 ranks; parallel.tensor "
                "may be 1, 2, or more with a larger parallel.tensorShards"));
  EXPECT_THAT(says(3, 4), HasSubstr("parallel.tensor may be 1, 2, 4"));
}

TEST_F(ShardsTest, AreToldWithTheStage) {
  EXPECT_EQ(ToString(kShape, {0, 1, {1, 2, 4}}),
            "stage 0 of 1 (the embeddings, layers 0 to 1 and the head), shards 2 to 3 of 4");
  EXPECT_EQ(ToString(kShape, {1, 2, {3, 4, 4}}),
            "stage 1 of 2 (layer 1 and the head), shard 3 of 4");
}

TEST_F(ShardsTest, HoldLessThanAllOfThem) {
  const auto bytes = [](const Stage& stage) {
    return Gpt<float>::PredictActivationBytes(kShape, kBatch, Precision::kFp32, stage);
  };
  EXPECT_LT(bytes(StageOf(0, 4, 4)), bytes(StageOf(0, 2, 4)));
  EXPECT_LT(bytes(StageOf(0, 2, 4)), bytes(StageOf(0, 1, 4)));
}

}  // namespace
}  // namespace lockstep::trainer::shards_test
