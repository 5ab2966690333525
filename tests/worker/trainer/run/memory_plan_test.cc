#include "worker/trainer/run/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr Shape kShape = {.layers = 4, .heads = 2, .width = 64, .vocabulary = 256, .context = 32};
constexpr size_t kPassed = size_t{2} * 32 * 64 * sizeof(float);  // of a micro-batch of 2
constexpr size_t kHead = size_t{256} * 64 * sizeof(float);

MemoryPlan Plan(const Stage& stage, int mine) {
  const BatchPlan batch = {
      .global_batch = int64_t{2} * mine, .micro_batch = 2, .count = mine, .first = 0, .mine = mine};
  return PlanMemory(kShape, batch, Precision::kFp32, false, stage);
}

TEST(MemoryPlan, CountsTheCopiesThatLieForEachNeighbour) {
  EXPECT_EQ(Plan({0, 4}, 8).posted, 4 * kPassed) << "activations";
  EXPECT_EQ(Plan({1, 4}, 8).posted, 8 * kPassed) << "activations and gradients";
  EXPECT_EQ(Plan({3, 4}, 8).posted, 4 * kPassed + 4 * kHead) << "gradients, and the head's";
  EXPECT_EQ(Plan({1, 2}, 8).posted, kPassed + kHead) << "both to stage 0, two in all";
  EXPECT_EQ(Plan({1, 4}, 2).posted, 4 * kPassed) << "no more than a step has";
  MemoryPlan plan = Plan({3, 4}, 8);
  EXPECT_THAT(ToString(plan), HasSubstr("posted copies 0 MB"));
  const size_t sum = plan.sum();
  plan.posted += 5'000'000;
  EXPECT_EQ(plan.sum(), sum + 5'000'000);
  EXPECT_THAT(ToString(plan), HasSubstr("posted copies 5 MB"));
}

TEST(MemoryPlan, CountsAPartOfTheShardsAndTheWholeModelAtTheFirstRank) {
  const MemoryPlan alone = Plan({}, 8);
  const MemoryPlan first = Plan({0, 1, {0, 2, 2}}, 8);
  const MemoryPlan second = Plan({0, 1, {1, 2, 2}}, 8);
  EXPECT_LT(second.parameters, alone.parameters);
  EXPECT_EQ(second.optimizer, 2 * second.parameters);
  EXPECT_LT(second.activations, alone.activations);
  EXPECT_EQ(second.checkpoint, 0U);
  EXPECT_EQ(first.checkpoint, 3 * alone.parameters + first.parameters) << "and what is gathered";
  EXPECT_EQ(Plan({0, 1, {0, 1, 2}}, 8).checkpoint, 3 * alone.parameters);
}

TEST(MemoryPlan, OfAWholeModelHasNone) {
  EXPECT_EQ(Plan({}, 8).posted, 0);
  EXPECT_THAT(ToString(Plan({}, 8)), Not(HasSubstr("posted")));
}

}  // namespace
}  // namespace lockstep::trainer
