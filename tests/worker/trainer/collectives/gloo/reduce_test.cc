// The order of summation, as its definition says it.
#include "worker/trainer/collectives/gloo/reduce.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/worker/trainer/collectives/ranks.h"
#include "worker/trainer/collectives/collectives.h"

namespace lockstep::collectives {
namespace {

// Values whose sum depends on the order, the same for the same rank and index.
std::vector<float> Awkward(int rank, size_t count) {
  std::mt19937 engine(static_cast<uint32_t>(rank) + 1);
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = value(engine) * (i % 3 == 0 ? 1e6f : 1e-3f);
  return values;
}

// By the definition, whole vectors at a time.
std::vector<float> TreeSums(const std::vector<std::vector<float>>& parts, size_t first, size_t n) {
  if (n == 1) return parts[first];
  const size_t half = (n + 1) / 2;
  std::vector<float> sums = TreeSums(parts, first, half);
  const std::vector<float> right = TreeSums(parts, first + half, n - half);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += right[i];
  return sums;
}

std::vector<float> TreeSums(int world, size_t count) {
  std::vector<std::vector<float>> parts;
  parts.reserve(static_cast<size_t>(world));
  for (int rank = 0; rank < world; ++rank) parts.push_back(Awkward(rank, count));
  return TreeSums(parts, 0, parts.size());
}

// EXPECT_EQ would print 100,000 numbers.
bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(ReduceTreeTest, AddsHalvesOfHalvesForAnyNumberOfRanks) {
  for (int world = 1; world <= 17; ++world) {
    const size_t count = 2500;
    std::vector<std::vector<float>> parts;
    std::vector<const void*> sources;
    for (int rank = 0; rank < world; ++rank) parts.push_back(Awkward(rank, count));
    for (const auto& part : parts) sources.push_back(part.data());
    std::vector<float> out(count);
    ReduceTree(Reduction::kSum, DataType::kFloat32, sources, count, out.data());
    EXPECT_TRUE(SameBits(out, TreeSums(world, count))) << world << " ranks";
  }
}

TEST(ReduceTreeTest, MayWriteOverAnyOfItsSources) {
  const size_t count = 2500;
  for (size_t target = 0; target < 5; ++target) {
    std::vector<std::vector<float>> parts;
    std::vector<const void*> sources;
    for (int rank = 0; rank < 5; ++rank) parts.push_back(Awkward(rank, count));
    for (const auto& part : parts) sources.push_back(part.data());
    ReduceTree(Reduction::kSum, DataType::kFloat32, sources, count, parts[target].data());
    EXPECT_TRUE(SameBits(parts[target], TreeSums(5, count))) << "over source " << target;
  }
}

TEST(ReduceTreeTest, ATreeOfTwoWorldsIsTheTreeOfTheirTrees) {
  const size_t count = 1000;
  std::vector<float> low = TreeSums(4, count);
  std::vector<std::vector<float>> parts;
  std::vector<const void*> sources;
  for (int rank = 4; rank < 8; ++rank) parts.push_back(Awkward(rank, count));
  for (const auto& part : parts) sources.push_back(part.data());
  std::vector<float> high(count);
  ReduceTree(Reduction::kSum, DataType::kFloat32, sources, count, high.data());
  const std::vector<const void*> both{low.data(), high.data()};
  ReduceTree(Reduction::kSum, DataType::kFloat32, both, count, low.data());
  EXPECT_TRUE(SameBits(low, TreeSums(8, count)));
}

class AllReduceBitsTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, AllReduceBitsTest, testing::Values(2, 3, 4, 5, 8));

TEST_P(AllReduceBitsTest, TreeSumsHaveTheReferencesBitsHoweverTheBufferIsCut) {
  const size_t count = 700'001;  // slices of several chunks at every world
  const std::vector<float> want = TreeSums(GetParam(), count);
  std::vector<std::vector<float>> inputs;
  for (int rank = 0; rank < GetParam(); ++rank) inputs.push_back(Awkward(rank, count));
  for (const size_t bucket : {count, count / 2 + 1, size_t{65'537}, size_t{30'000}}) {
    RunRanks(GetParam(), [&](Communicator& all) {
      std::vector<float> mine = inputs[static_cast<size_t>(all.rank())];
      std::vector<Work> works;
      for (size_t at = 0; at < count; at += bucket) {
        const Span part{mine.data() + at, std::min(bucket, count - at), DataType::kFloat32};
        works.push_back(all.AllReduceAsync(part, Reduction::kSum, "bucket"));
      }
      for (Work& work : works) ASSERT_TRUE(work.Wait().ok());
      EXPECT_TRUE(SameBits(mine, want)) << "buckets of " << bucket;
    });
  }
}

TEST_P(AllReduceBitsTest, ReduceScatterAndAllreduceGiveTheSameBits) {
  RunRanks(GetParam(), [](Communicator& all) {
    const size_t part = 40'000;
    const auto world = static_cast<size_t>(all.world());
    std::vector<float> in = Awkward(all.rank(), part * world);
    std::vector<float> out(part * world);
    ASSERT_TRUE(all.ReduceScatter({in.data(), in.size()},
                                  {out.data() + part * static_cast<size_t>(all.rank()), part},
                                  Reduction::kSum, "scatter")
                    .ok());
    ASSERT_TRUE(all.AllGather({out.data() + part * static_cast<size_t>(all.rank()), part},
                              {out.data(), out.size()}, "gather")
                    .ok());
    EXPECT_TRUE(SameBits(out, TreeSums(all.world(), part * world)));
  });
}

TEST_P(AllReduceBitsTest, TheRingGivesAllRanksTheSameBits) {
  const size_t count = 300'001;
  std::vector<std::vector<float>> results(static_cast<size_t>(GetParam()));
  Options options = TestOptions(GetParam());
  options.algorithm = core::Reduce::kRing;
  RunRanksWith(options, [&](Communicator& all) {
    std::vector<float>& mine = results[static_cast<size_t>(all.rank())];
    mine = Awkward(all.rank(), count);
    ASSERT_TRUE(all.AllReduce({mine.data(), count}, Reduction::kSum, "ring").ok());
  });
  const std::vector<float> tree = TreeSums(GetParam(), count);
  for (const auto& result : results) EXPECT_TRUE(SameBits(result, results[0]));
  for (size_t i = 0; i < count; ++i) ASSERT_NEAR(results[0][i], tree[i], 4) << i;
}

}  // namespace
}  // namespace lockstep::collectives
