#include "worker/trainer/data/shuffle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace lockstep::trainer {
namespace {

std::vector<uint64_t> Order(uint64_t seed, uint64_t epoch, uint64_t size) {
  Shuffle shuffle(seed, epoch, size);
  std::vector<uint64_t> order;
  for (uint64_t i = 0; i < size; ++i) order.push_back(shuffle(i));
  return order;
}

TEST(ShuffleTest, EverySizeIsPermuted) {
  for (uint64_t size = 1; size < 300; ++size) {
    std::vector<uint64_t> order = Order(size * 7, size % 3, size);
    std::ranges::sort(order);
    for (uint64_t i = 0; i < size; ++i) ASSERT_EQ(order[i], i) << "of " << size;
  }
}

TEST(ShuffleTest, ALargeSizeIsPermutedToo) {
  constexpr uint64_t kSize = 100003;
  std::vector<uint64_t> order = Order(1, 2, kSize);
  std::ranges::sort(order);
  EXPECT_EQ(std::ranges::adjacent_find(order), order.end());
  EXPECT_EQ(order.back(), kSize - 1);
}

TEST(ShuffleTest, SeedAndEpochChangeTheOrder) {
  EXPECT_EQ(Order(1, 0, 1000), Order(1, 0, 1000));
  EXPECT_NE(Order(1, 0, 1000), Order(1, 1, 1000));
  EXPECT_NE(Order(1, 0, 1000), Order(2, 0, 1000));
  // Not one order shifted: a seed and an epoch are no sum.
  EXPECT_NE(Order(1, 1, 1000), Order(2, 0, 1000));
}

TEST(ShuffleTest, SizesNearTheLargestAreInBounds) {
  for (uint64_t size : {(uint64_t{1} << 32) + 1, (uint64_t{1} << 62) - 1, uint64_t{1} << 62}) {
    Shuffle shuffle(3, 4, size);
    for (uint64_t i = 0; i < 1000; ++i) {
      EXPECT_LT(shuffle(i), size);
      EXPECT_LT(shuffle(size - 1 - i), size);
    }
  }
}

// Each place is taken from each part of the data about equally often over many epochs: chi-squared
// with 99 degrees of freedom is below 180 with a probability of 1 - 1e-6 for fair draws.
TEST(ShuffleTest, PlacesAreEven) {
  constexpr uint64_t kSize = 1000;
  constexpr uint64_t kEpochs = 5000;
  for (uint64_t place : {uint64_t{0}, uint64_t{1}, kSize / 2, kSize - 1}) {
    std::vector<double> drawn(100);
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      ++drawn[Shuffle(42, epoch, kSize)(place) / 10];
    }
    double expected = kEpochs / 100.0;
    double chi = 0;
    for (double count : drawn) chi += (count - expected) * (count - expected) / expected;
    EXPECT_LT(chi, 180) << "at place " << place;
  }
}

TEST(ShuffleTest, NeighboursAreTornApart) {
  std::vector<uint64_t> order = Order(9, 0, 10000);
  int close = 0;
  for (size_t i = 1; i < order.size(); ++i) {
    uint64_t distance = std::max(order[i], order[i - 1]) - std::min(order[i], order[i - 1]);
    if (distance < 100) ++close;
  }
  // Of fair draws 2 %.
  EXPECT_NEAR(close, 200, 100);
}

// A checkpoint's cursor counts in this order: it may never change.
TEST(ShuffleTest, TheOrderIsPartOfTheFormat) {
  EXPECT_EQ(Order(0, 0, 10), (std::vector<uint64_t>{9, 5, 8, 0, 2, 6, 3, 7, 4, 1}));
  EXPECT_EQ(Shuffle(1337, 3, 1000000007)(0), 583851618U);
  EXPECT_EQ(Shuffle(1337, 3, 1000000007)(1000000006), 475423039U);
}

}  // namespace
}  // namespace lockstep::trainer
