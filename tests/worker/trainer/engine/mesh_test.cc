#include "worker/trainer/engine/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/trainer/engine/batch_plan.h"

namespace lockstep::trainer {
namespace {

using testing::HasSubstr;

constexpr Shape kShape = {.layers = 4, .heads = 2, .width = 32, .vocabulary = 64, .context = 8};

TEST(MeshTest, PutsTheStagesOfAPipelineNextToEachOther) {
  const Mesh mesh{.rank = 5, .world = 8, .stages = 2};
  EXPECT_EQ(mesh.pipelines(), 4);
  EXPECT_EQ(mesh.pipeline(), 2);
  EXPECT_EQ(mesh.stage().index, 1);
  EXPECT_EQ(mesh.RankOf(0), 4);
  const collectives::RankGroup copies = mesh.Copies();
  EXPECT_EQ(copies.RankOf(mesh.pipeline()), 5);
  EXPECT_EQ(copies.RankOf(0), 1);
  EXPECT_EQ(copies.size, 4);
}

TEST(MeshTest, PutsTheRanksOfAStageNextToEachOther) {
  const Mesh mesh{.rank = 7, .world = 8, .stages = 2, .tensor = 2, .shards = 4};
  EXPECT_EQ(mesh.pipelines(), 2);
  EXPECT_EQ(mesh.pipeline(), 1);
  EXPECT_EQ(mesh.stage().index, 1);
  EXPECT_EQ(mesh.stage().shards.first(), 2);
  EXPECT_EQ(mesh.stage().shards.mine(), 2);
  EXPECT_EQ(mesh.RankOf(0), 5);
  EXPECT_EQ(mesh.RankOf(1, 0), 6);
  EXPECT_EQ(mesh.Copies().RankOf(0), 3);
  EXPECT_EQ(mesh.Copies().size, 2);
  EXPECT_EQ(mesh.Peers().RankOf(0), 6);
  EXPECT_EQ(mesh.Peers().RankOf(mesh.part()), 7);
  EXPECT_EQ(mesh.Peers().size, 2);
}

TEST(MeshTest, OfOneStageIsPlainDataParallel) {
  const Mesh mesh{.rank = 3, .world = 4, .stages = 1};
  EXPECT_EQ(mesh.pipeline(), 3);
  EXPECT_TRUE(mesh.stage().first() && mesh.stage().last());
  EXPECT_EQ(HeldMicroBatches(mesh.stage(), 8), 1);
  core::Trainer job;
  job.sync = core::Sync::kParameterServer;
  EXPECT_TRUE(CheckMesh(job, kShape, mesh).ok());
}

TEST(MeshTest, AStageHoldsAsManyMicroBatchesAsGoForwardBeforeTheFirstComesBack) {
  EXPECT_EQ(HeldMicroBatches({0, 4}, 8), 4);
  EXPECT_EQ(HeldMicroBatches({3, 4}, 8), 1);
  EXPECT_EQ(HeldMicroBatches({0, 4}, 2), 2);
}

TEST(MeshTest, ALastStageHoldsTheHeadsGradientUntilTheFirstCanTakeIt) {
  EXPECT_EQ(HeldHeads({1, 2}, 8), 1);
  EXPECT_EQ(HeldHeads({3, 4}, 8), 2);
  EXPECT_EQ(HeldHeads({7, 8}, 8), 5);
  EXPECT_EQ(HeldHeads({7, 8}, 2), 2);
  // More than the first has gone forward with, and both would wait for each other.
  for (int stages = 2; stages < 64; ++stages) {
    EXPECT_LE(HeldHeads({stages - 1, stages}, 1000), stages - 1);
  }
}

TEST(MeshTest, WhatCannotBeIsRefusedWithWhatCould) {
  core::Trainer job;
  const auto says = [&](int world, int stages) {
    const Status checked = CheckMesh(job, kShape, {.rank = 0, .world = world, .stages = stages});
    return checked.ok() ? "" : checked.error().message;
  };
  EXPECT_EQ(says(8, 4), "");
  EXPECT_THAT(says(6, 4), HasSubstr("run it with a multiple of 4, as in 4 or 8"));
  EXPECT_THAT(says(6, 3), HasSubstr("parallel.pipeline may be 1, 2, 4"));
  job.reduce = core::Reduce::kRing;
  EXPECT_THAT(says(8, 4), HasSubstr("write reduce Tree"));
  job.sync = core::Sync::kParameterServer;
  EXPECT_THAT(says(8, 4), HasSubstr("write sync AllReduce"));
}

TEST(MeshTest, RanksThatCannotShareShardsAreRefusedWithWhatCould) {
  core::Trainer job;
  const auto says = [&](int world, int stages, int tensor, int shards) {
    const Status checked = CheckMesh(job, kShape, {0, world, stages, tensor, shards});
    return checked.ok() ? "" : checked.error().message;
  };
  EXPECT_EQ(says(8, 2, 2, 2), "");
  EXPECT_EQ(says(1, 1, 1, 2), "");
  EXPECT_THAT(says(6, 2, 2, 2),
              HasSubstr("cannot be divided into pipelines of 2 stages of 2 ranks: run it with a "
                        "multiple of 4, as in 4 or 8"));
  EXPECT_THAT(says(2, 1, 2, 1), HasSubstr("or more with a larger parallel.tensorShards"));
  EXPECT_THAT(says(4, 1, 1, 4), HasSubstr("parallel.tensorShards may be 1, 2"));
  job.reduce = core::Reduce::kRing;
  EXPECT_THAT(says(2, 1, 2, 2), HasSubstr("write reduce Tree, or parallel.tensor"));
  job.sync = core::Sync::kParameterServer;
  EXPECT_THAT(says(2, 1, 2, 2), HasSubstr("write sync AllReduce, or parallel.tensor"));
}

TEST(MeshTest, DealsMicroBatchesToPipelines) {
  for (int rank = 0; rank < 4; ++rank) {
    const Result<BatchPlan> plan = PlanBatches(8, 1, rank, 4, 2);
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->mine, 4);
    EXPECT_EQ(plan->first, rank / 2 * 4);
  }
  const Result<BatchPlan> refused = PlanBatches(8, 1, 0, 6, 2);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message,
              HasSubstr("6 processes in pipelines of 2; run it with 2, 4, 8, 16 processes"));
}

}  // namespace
}  // namespace lockstep::trainer
