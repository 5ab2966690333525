#include "worker/trainer/engine/gradient_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace lockstep::trainer {
namespace {

constexpr size_t kSize = 100'003;

// Values whose sum depends on its order.
float ValueOf(int leaf, size_t i) {
  return std::sin(static_cast<float>(leaf * 37 + 1) * static_cast<float>(i % 977 + 1)) *
         std::pow(10.0F, static_cast<float>((leaf * 7 + static_cast<int>(i)) % 9 - 4));
}

float Expected(int first, int count, size_t i) {
  if (count == 1) return ValueOf(first, i);
  const int left = count / 2;
  return Expected(first, left, i) + Expected(first + left, count - left, i);
}

// A leaf that completes in pieces, from its end.
GradientTree::Leaf LeafFrom(int first) {
  return [first](int index, std::span<float> out, const Complete& complete) -> Status {
    for (size_t i = 0; i < out.size(); ++i) out[i] = ValueOf(first + index, i);
    for (size_t from = out.size(); from > 0;) {
      from -= std::min<size_t>(from, 33'333);
      complete(from);
    }
    return {};
  };
}

bool SameBits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

TEST(GradientTree, SumsAsABalancedTreeOverTheLeaves) {
  Threads threads(2);
  for (const int leaves : {1, 2, 3, 4, 5, 8, 12}) {
    GradientTree tree(kSize, leaves, threads);
    ASSERT_TRUE(tree.Sum(LeafFrom(0), [](size_t) {}).ok());
    for (size_t i = 0; i < kSize; i += 991) {
      ASSERT_TRUE(SameBits(tree.total()[i], Expected(0, leaves, i))) << leaves << " at " << i;
    }
  }
}

TEST(GradientTree, IsASubtreeOfTheStepsTreeForEachPowerOfTwoOfRanks) {
  Threads threads(1);
  constexpr int kLeaves = 12;
  for (const int world : {2, 4}) {
    std::vector<std::vector<float>> parts;
    for (int rank = 0; rank < world; ++rank) {
      GradientTree tree(kSize, kLeaves / world, threads);
      ASSERT_TRUE(tree.Sum(LeafFrom(rank * kLeaves / world), [](size_t) {}).ok());
      parts.emplace_back(tree.total().begin(), tree.total().end());
    }
    for (size_t i = 0; i < kSize; i += 991) {
      float sum = parts[0][i] + parts[1][i];
      if (world == 4) sum += parts[2][i] + parts[3][i];
      ASSERT_TRUE(SameBits(sum, Expected(0, kLeaves, i))) << world << " at " << i;
    }
  }
}

TEST(GradientTree, TellsOfTheSumPieceByPieceWhileTheLastLeafGoesOn) {
  Threads threads(2);
  constexpr int kLeaves = 5;
  GradientTree tree(kSize, kLeaves, threads);
  size_t to = kSize;
  int pieces = 0;
  ASSERT_TRUE(tree.Sum(LeafFrom(0),
                       [&](size_t from) {
                         for (size_t i = from; i < to; i += 499) {
                           ASSERT_TRUE(SameBits(tree.total()[i], Expected(0, kLeaves, i)));
                         }
                         to = from;
                         ++pieces;
                       })
                  .ok());
  EXPECT_EQ(to, 0U);
  EXPECT_EQ(pieces, 4);
}

TEST(GradientTree, GivesTheSameBitsForAnyNumberOfThreads) {
  Threads one(1);
  Threads three(3);
  GradientTree first(kSize, 6, one);
  GradientTree second(kSize, 6, three);
  ASSERT_TRUE(first.Sum(LeafFrom(0), [](size_t) {}).ok());
  ASSERT_TRUE(second.Sum(LeafFrom(0), [](size_t) {}).ok());
  EXPECT_TRUE(std::ranges::equal(first.total(), second.total(), SameBits));
}

TEST(GradientTree, EndsWithTheFirstErrorOfALeaf) {
  Threads threads(1);
  GradientTree tree(4, 4, threads);
  int called = 0;
  const Status status = tree.Sum(
      [&](int index, std::span<float>, const Complete&) -> Status {
        ++called;
        if (index == 1) return Error::Unavailable("the file is gone");
        return {};
      },
      [](size_t) { FAIL() << "nothing is complete"; });
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(called, 2);
}

TEST(GradientTree, HoldsAsManyArraysAsTheTreeIsDeep) {
  EXPECT_EQ(GradientTree::Arrays(1), 1);
  EXPECT_EQ(GradientTree::Arrays(2), 2);
  EXPECT_EQ(GradientTree::Arrays(4), 3);
  EXPECT_EQ(GradientTree::Arrays(8), 4);
}

}  // namespace
}  // namespace lockstep::trainer
