#include "worker/trainer/cuda/engine/cuda_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/worker/trainer/collectives/nccl/rank_processes.h"
#include "tests/worker/trainer/collectives/ranks.h"
#include "tests/worker/trainer/cuda/fake_gpu.h"
#include "worker/trainer/collectives/nccl/host_view.h"
#include "worker/trainer/cuda/slice_sum.h"

namespace lockstep::trainer::cuda_engine_test {
namespace {

using collectives::Backend;
using collectives::Communicator;
using collectives::Rank;
using ::testing::HasSubstr;

constexpr Shape kShape{.layers = 1, .heads = 1, .width = 64, .vocabulary = 96, .context = 64};
constexpr int kMicroBatches = 4;
constexpr int kSteps = 3;

int32_t TokenOf(int64_t i) { return static_cast<int32_t>((i * i + 7 * i + 3) % 96); }

// Micro-batch `index` of all: one sequence, and the one behind it.
void FillBatch(int64_t index, std::span<int32_t> inputs, std::span<int32_t> targets) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = TokenOf(index * 1000 + static_cast<int64_t>(i));
    targets[i] = TokenOf(index * 1000 + static_cast<int64_t>(i) + 1);
  }
}

EngineOptions OptionsOf(const Rank& rank, Precision precision, size_t bucket_bytes, bool overlap) {
  EngineOptions options;
  Result<BatchPlan> plan = PlanBatches(kMicroBatches, 1, rank.rank(), rank.world());
  Rank::Must(plan.ok() ? Status() : plan.error());
  options.batch = *plan;
  options.precision = precision;
  options.sync_options = {.bucket_bytes = bucket_bytes, .overlap = overlap, .servers = {}};
  return options;
}

Replica NewReplica() {
  Replica replica(kShape);
  InitialiseParameters(kShape, 42, replica.parameters);
  return replica;
}

Result<StepResult> StepOf(Engine& engine, const BatchPlan& batch, int step, bool stop = false) {
  StepOptions options;
  options.micro_batches = batch.count;
  options.t = step + 1;
  options.learning_rate = 1e-2;
  options.clip = 1.0;
  options.stop = stop;
  return engine.Step(options, [&](int i, std::span<int32_t> inputs, std::span<int32_t> targets) {
    FillBatch(batch.SampleOf(int64_t{step} * kMicroBatches, i), inputs, targets);
    return Status();
  });
}

float LossOf(Engine& engine, int index) {
  const Result<float> loss =
      engine.Loss(index, [](int i, std::span<int32_t> inputs, std::span<int32_t> targets) {
        FillBatch(i, inputs, targets);
        return Status();
      });
  Rank::Must(loss.ok() ? Status() : loss.error());
  return *loss;
}

std::unique_ptr<Communicator> Connect(const Rank& rank, uint16_t port) {
  collectives::Options options;
  options.rank = rank.rank();
  options.world = rank.world();
  options.local_rank = rank.rank();
  options.master_address = "127.0.0.1";
  options.master_port = port;
  options.slice_sum = MakeSliceSum;
  options.backend = rank.world() == 1 ? Backend::kGloo : Backend::kNccl;
  Result<std::unique_ptr<Communicator>> made = collectives::Connect(options);
  if (!made.ok()) Rank::Must(made.error());
  return std::move(*made);
}

Gpu OpenGpu(const Rank& rank) {
  UseFakeBlas();
  Result<Gpu> gpu = Gpu::Open(rank.rank());
  if (!gpu.ok()) Rank::Must(gpu.error());
  return std::move(*gpu);
}

struct Variant {
  int world = 1;
  size_t bucket_bytes = size_t{25} << 20;
  bool overlap = true;
  bool validates = false;
};

// The hash of the replica after kSteps, as rank 0 has it; all ranks' are compared.
uint64_t Train(const Variant& variant, Precision precision) {
  uint64_t hash = 0;
  const uint16_t port = collectives::FreePort();
  const std::string path = ::testing::TempDir() + "cuda-engine-" + std::to_string(port);
  collectives::RunRanks(variant.world, [&](Rank& rank) {
    Rank::Set("FAKE_ALIGNED", "1");
    Threads threads(1);
    std::unique_ptr<Communicator> all;
    Replica replica = NewReplica();
    std::unique_ptr<Communicator> host;
    {
      all = Connect(rank, port);
      Gpu gpu = OpenGpu(rank);
      if (rank.world() > 1) {
        auto view = collectives::HostView::Create(gpu.device, *all, 4096);
        ASSERT_TRUE(view.ok()) << view.error().message;
        host = std::move(*view);
        Rank::Must(BroadcastReplica(replica, *host, threads));
      }
      const EngineOptions options =
          OptionsOf(rank, precision, variant.bucket_bytes, variant.overlap);
      Result<std::unique_ptr<Engine>> engine =
          MakeCudaEngine(std::move(gpu), options, replica, *all);
      ASSERT_TRUE(engine.ok()) << engine.error().message;
      for (int step = 0; step < kSteps; ++step) {
        const Result<StepResult> done = StepOf(**engine, options.batch, step);
        ASSERT_TRUE(done.ok()) << done.error().message;
        EXPECT_FALSE(done->skipped);
        EXPECT_FALSE(done->stop);
        EXPECT_GT(done->times.backward, Duration::zero());
        if (variant.validates) EXPECT_GT(LossOf(**engine, 99), 0);
      }
      Result<uint64_t> on_gpu = (*engine)->HashOfReplica();
      ASSERT_TRUE(on_gpu.ok()) << on_gpu.error().message;
      if (host) Rank::Must(CompareReplicas(*on_gpu, *host));
      // A copy in host memory is rank 0's alone.
      Rank::Must((*engine)->UpdateReplica());
      EXPECT_EQ(HashOf(replica, true, threads) == *on_gpu, rank.rank() == 0);
      Rank::Must(all->Finish());
    }
    if (rank.rank() == 0) {
      std::FILE* file = std::fopen(path.c_str(), "w");
      std::fprintf(file, "%llu",
                   static_cast<unsigned long long>(HashOf(replica.parameters, threads)));
      std::fclose(file);
    }
  });
  if (std::FILE* file = std::fopen(path.c_str(), "r")) {
    unsigned long long value = 0;
    EXPECT_EQ(std::fscanf(file, "%llu", &value), 1);
    hash = value;
    std::fclose(file);
  }
  return hash;
}

class CudaEnginePrecisions : public ::testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Of, CudaEnginePrecisions,
                         ::testing::Values(Precision::kFp32, Precision::kBf16));

TEST_P(CudaEnginePrecisions, GivesTheSameBitsAtWorlds1And2And4WhateverTheBuckets) {
  const uint64_t alone = Train({}, GetParam());
  ASSERT_NE(alone, 0U);
  EXPECT_EQ(Train({.world = 2}, GetParam()), alone);
  EXPECT_EQ(
      Train({.world = 2, .bucket_bytes = 8192, .overlap = false, .validates = true}, GetParam()),
      alone);
  EXPECT_EQ(Train({.world = 4, .bucket_bytes = 40'000}, GetParam()), alone);
}

TEST(CudaEngine, TrainsAsTheCpuDoes) {
  collectives::RunRanks(1, [](Rank& rank) {
    Threads threads(1);
    const std::unique_ptr<Communicator> all = Connect(rank, 0);
    const EngineOptions options = OptionsOf(rank, Precision::kFp32, size_t{1} << 20, true);
    Replica on_cpu = NewReplica();
    Replica on_gpu = NewReplica();
    Result<std::unique_ptr<Engine>> cpu = MakeCpuEngine(options, on_cpu, *all, threads);
    ASSERT_TRUE(cpu.ok());
    Result<std::unique_ptr<Engine>> gpu = MakeCudaEngine(OpenGpu(rank), options, on_gpu, *all);
    ASSERT_TRUE(gpu.ok()) << gpu.error().message;
    for (int step = 0; step < kSteps; ++step) {
      const Result<StepResult> right = StepOf(**cpu, options.batch, step);
      const Result<StepResult> done = StepOf(**gpu, options.batch, step);
      ASSERT_TRUE(right.ok());
      ASSERT_TRUE(done.ok()) << done.error().message;
      EXPECT_NEAR(done->loss, right->loss, 1e-4 * right->loss);
      EXPECT_NEAR(done->gradient_norm, right->gradient_norm, 1e-3 * right->gradient_norm);
      EXPECT_NEAR(LossOf(**gpu, 70 + step), LossOf(**cpu, 70 + step), 1e-3);
    }
    Rank::Must((*gpu)->UpdateReplica());
    for (size_t i = 0; i < on_cpu.parameters.size(); ++i) {
      ASSERT_NEAR(on_gpu.parameters[i], on_cpu.parameters[i], 2e-3) << i;
    }
  });
}

TEST(CudaEngine, TellsThatARankWasAskedToStop) {
  collectives::RunRanks(1, [](Rank& rank) {
    const std::unique_ptr<Communicator> all = Connect(rank, 0);
    const EngineOptions options = OptionsOf(rank, Precision::kBf16, size_t{1} << 20, true);
    Replica replica = NewReplica();
    Result<std::unique_ptr<Engine>> gpu = MakeCudaEngine(OpenGpu(rank), options, replica, *all);
    ASSERT_TRUE(gpu.ok()) << gpu.error().message;
    EXPECT_TRUE(StepOf(**gpu, options.batch, 0, true)->stop);
    EXPECT_FALSE(StepOf(**gpu, options.batch, 1)->stop);
  });
}

TEST(CudaEngine, InPlaceEveryRankKeepsWhatTheLastStepLeftWhenTheNextBreaksOff) {
  const uint16_t port = collectives::FreePort();
  int to_rank_1[2];
  ASSERT_EQ(pipe(to_rank_1), 0);
  collectives::RunRanks(2, [&](Rank& rank) {
    Threads threads(1);
    Replica replica = NewReplica();
    std::unique_ptr<Communicator> all = Connect(rank, port);
    EngineOptions options = OptionsOf(rank, Precision::kBf16, size_t{1} << 20, true);
    options.in_place = true;
    Result<std::unique_ptr<Engine>> engine = MakeCudaEngine(OpenGpu(rank), options, replica, *all);
    ASSERT_TRUE(engine.ok()) << engine.error().message;
    ASSERT_TRUE(StepOf(**engine, options.batch, 0).ok());
    const Result<uint64_t> left = (*engine)->HashOfReplica();
    ASSERT_TRUE(left.ok()) << left.error().message;
    char done = 0;
    if (rank.rank() == 1) {
      ASSERT_EQ(read(to_rank_1[0], &done, 1), 1);
    } else {
      ASSERT_EQ(write(to_rank_1[1], &done, 1), 1);
      const Result<StepResult> next = StepOf(**engine, options.batch, 1);
      ASSERT_FALSE(next.ok()) << "rank 1 has gone";
      EXPECT_EQ(next.error().kind, ErrorKind::kUnavailable) << next.error().message;
    }
    all.reset();
    EXPECT_EQ(replica.parameters.empty(), rank.rank() != 0) << "rank 0 writes checkpoints";
    Rank::Must((*engine)->Quiesce());
    Rank::Must((*engine)->KeepReplica());
    EXPECT_EQ(HashOf(replica, true, threads), *left);
  });
  close(to_rank_1[0]);
  close(to_rank_1[1]);
}

TEST(CudaEngine, SaysHowMuchMemoryIsWantedWhereItIsTooLittle) {
  collectives::RunRanks(1, [](Rank& rank) {
    const std::unique_ptr<Communicator> all = Connect(rank, 0);
    const EngineOptions options = OptionsOf(rank, Precision::kBf16, size_t{1} << 20, true);
    Replica replica = NewReplica();
    Rank::Set("FAKE_MEMORY", "1000000");
    Result<std::unique_ptr<Engine>> gpu = MakeCudaEngine(OpenGpu(rank), options, replica, *all);
    ASSERT_FALSE(gpu.ok());
    EXPECT_EQ(gpu.error().kind, ErrorKind::kInvalid) << gpu.error().message;
    EXPECT_THAT(gpu.error().message, HasSubstr("lower microBatchSize or sequenceLength"));
    // Room for all but the libraries.
    const CudaMemoryPlan plan = PlanCudaMemory(kShape, options, Mesh{});
    Rank::Set("FAKE_MEMORY", std::to_string(plan.sum() - 1));
    gpu = MakeCudaEngine(OpenGpu(rank), options, replica, *all);
    ASSERT_FALSE(gpu.ok());
    EXPECT_THAT(gpu.error().message, HasSubstr("what NCCL and cuBLAS take up to 537 MB"));
    EXPECT_EQ(PlanCudaMemory(kShape, options, {.world = 2}).libraries, 2 * plan.libraries);
  });
}

}  // namespace
}  // namespace lockstep::trainer::cuda_engine_test
