#include "worker/trainer/engine/batch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace lockstep::trainer {
namespace {

using testing::HasSubstr;

TEST(PlanBatches, DealsEverySequenceOfAStepToExactlyOneRank) {
  for (const int world : {1, 2, 3, 4, 6, 12}) {
    std::multiset<int64_t> dealt;
    for (int rank = 0; rank < world; ++rank) {
      const Result<BatchPlan> plan = PlanBatches(24, 2, rank, world);
      ASSERT_TRUE(plan.ok()) << plan.error().message;
      for (int i = 0; i < plan->mine; ++i) {
        for (int b = 0; b < plan->micro_batch; ++b) dealt.insert(plan->SampleOf(100, i) + b);
      }
    }
    std::multiset<int64_t> all;
    for (int64_t n = 100; n < 124; ++n) all.insert(n);
    EXPECT_EQ(dealt, all) << world;
  }
}

TEST(PlanBatches, ChoosesTheSameMicroBatchAtEveryWorldUpToEight) {
  for (const int64_t global : {8, 16, 24, 64, 512}) {
    const Result<BatchPlan> alone = PlanBatches(global, 0, 0, 1);
    ASSERT_TRUE(alone.ok());
    EXPECT_GE(alone->count, 8);
    for (const int world : {2, 4, 8}) {
      const Result<BatchPlan> plan = PlanBatches(global, 0, 0, world);
      ASSERT_TRUE(plan.ok()) << global << " in " << world;
      EXPECT_EQ(plan->micro_batch, alone->micro_batch) << global << " in " << world;
    }
  }
}

TEST(PlanBatches, ChoosesSmallerMicroBatchesForAWorldThatNeedsThem) {
  const Result<BatchPlan> plan = PlanBatches(32, 0, 0, 32);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->micro_batch, 1);
  EXPECT_EQ(plan->mine, 1);
}

TEST(PlanBatches, RefusesAWorldThatDoesNotDivideAndNamesThoseThatDo) {
  const Result<BatchPlan> plan = PlanBatches(12, 1, 0, 5);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(plan.error().message, HasSubstr("run it with 1, 2, 3, 4, 6, 12 processes"));
}

TEST(PlanBatches, RefusesAMicroBatchThatDoesNotDivideTheGlobalOne) {
  const Result<BatchPlan> plan = PlanBatches(12, 5, 0, 1);
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(plan.error().message, HasSubstr("not a multiple of the micro-batch of 5"));
  EXPECT_FALSE(PlanBatches(0, 1, 0, 1).ok());
}

}  // namespace
}  // namespace lockstep::trainer
