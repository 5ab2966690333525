// No kernel and no product goes beyond its buffer. What shows it is AddressSanitizer, in
// build/asan: see worker/trainer/cuda/red_zone.h.
#include "worker/trainer/cuda/red_zone.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "tests/worker/trainer/collectives/nccl/rank_processes.h"
#include "tests/worker/trainer/cuda/fake_gpu.h"
#include "worker/trainer/collectives/group/connect.h"
#include "worker/trainer/cuda/cuda_buffers.h"
#include "worker/trainer/cuda/engine/cuda_engine.h"

namespace lockstep::trainer::red_zone_test {
namespace {

using collectives::Communicator;
using collectives::ExitCodes;
using collectives::Rank;
using collectives::RunRanks;

#ifdef LOCKSTEP_ASAN
constexpr int kFound = 1;  // AddressSanitizer's exit code
#else
constexpr int kFound = 0;
#endif

// Sizes that fill no block, tile or row of kernels.
struct Sizes {
  const char* name;
  Shape shape;
  int global_batch;
  int micro_batch;
  Precision precision = Precision::kBf16;
  int shards = 1;
};

Shape Of(int layers, int heads, int vocabulary, int context) {
  return {.layers = layers,
          .heads = heads,
          .width = 64 * heads,
          .vocabulary = vocabulary,
          .context = context};
}

const Sizes kSizes[] = {
    {"AnOddVocabulary", Of(1, 1, 257, 33), 3, 3},
    {"TwoLayersAndMicroBatches", Of(2, 2, 131, 80), 4, 2},
    {"Fp32", Of(1, 2, 131, 66), 2, 1, Precision::kFp32},
    {"AShortContextInTwoShards", Of(1, 2, 131, 7), 2, 1, Precision::kBf16, 2},
    {"FourShardsInFp32", Of(1, 4, 129, 65), 1, 1, Precision::kFp32, 4},
};

class Buffers : public ::testing::TestWithParam<Sizes> {};
INSTANTIATE_TEST_SUITE_P(Of, Buffers, ::testing::ValuesIn(kSizes),
                         [](const auto& info) { return info.param.name; });

// With the first and the last token of the vocabulary.
Status Read(const Shape& shape, int i, std::span<int32_t> inputs, std::span<int32_t> targets) {
  for (size_t k = 0; k < inputs.size(); ++k) {
    const int token = static_cast<int>(k * k + 7 * k) + 13 * i;
    inputs[k] = token % shape.vocabulary;
    targets[k] = (token + 3) % shape.vocabulary;
  }
  inputs[0] = targets[1] = 0;
  inputs[1] = targets[0] = shape.vocabulary - 1;
  return {};
}

TEST_P(Buffers, AreAllThatTrainingReadsAndWrites) {
  RunRanks(1, [](Rank&) {
    UseFakeBlas();
    const Sizes& sizes = GetParam();
    collectives::Options alone;
    alone.backend = collectives::Backend::kGloo;
    const Result<std::unique_ptr<Communicator>> all = collectives::Connect(alone);
    ASSERT_TRUE(all.ok()) << all.error().message;
    EngineOptions options;
    const Result<BatchPlan> batch = PlanBatches(sizes.global_batch, sizes.micro_batch, 0, 1);
    ASSERT_TRUE(batch.ok()) << batch.error().message;
    options.batch = *batch;
    options.precision = sizes.precision;
    options.sync_options.parallel.tensor_shards = sizes.shards;
    Replica replica(sizes.shape, Mesh::Of(options.sync_options.parallel, 0, 1).stage());
    InitialiseParameters(sizes.shape, 42, replica.parameters);
    Replica whole(sizes.shape);
    options.whole = &whole;
    options.host = all->get();
    Result<Gpu> gpu = Gpu::Open(0);
    ASSERT_TRUE(gpu.ok()) << gpu.error().message;
    const Result<std::unique_ptr<Engine>> engine =
        MakeCudaEngine(std::move(*gpu), options, replica, **all);
    ASSERT_TRUE(engine.ok()) << engine.error().message;
    const ReadBatch read = [&](int i, std::span<int32_t> inputs, std::span<int32_t> targets) {
      return Read(sizes.shape, i, inputs, targets);
    };
    StepOptions step;
    step.micro_batches = batch->count;
    step.t = 1;
    step.learning_rate = 1e-3;
    step.clip = 1;
    const Result<StepResult> done = (*engine)->Step(step, read);
    ASSERT_TRUE(done.ok()) << done.error().message;
    EXPECT_FALSE(done->skipped);
    const Result<float> loss = (*engine)->Loss(0, read);
    ASSERT_TRUE(loss.ok()) << loss.error().message;
    EXPECT_TRUE(std::isfinite(*loss));
    EXPECT_TRUE((*engine)->HashOfReplica().ok());
    Rank::Must((*engine)->UpdateReplica());
  });
}

// `count` floats of a buffer of 100, before another buffer.
void AddFloats(Rank& rank, size_t count) {
  DeviceArena counter;
  counter.Take<float>(100);
  counter.Take<float>(100);
  collectives::DeviceMemory memory = rank.Allocate(counter.used());
  const std::vector<float> ones(100, 1);
  const collectives::DeviceMemory part = rank.ToDevice(std::vector<float>(200, 1));
  DeviceArena arena(memory.data());
  auto* const sum = arena.Take<float>(100);
  arena.Take<float>(100);
  Rank::Must(memory.CopyFrom(ones.data(), ones.size() * sizeof(float)));
  Result<Kernels> kernels = Kernels::Load(rank.device());
  if (!kernels.ok()) Rank::Must(kernels.error());
  Rank::Must(kernels->Launch(
      gpu::TreeAdd{.sum = sum, .part = static_cast<const float*>(part.data()), .count = count}));
  Rank::Must(kernels->Synchronize());
}

TEST(RedZones, AKernelThatGoesBeyondItsBufferIsFound) {
  EXPECT_EQ(ExitCodes(1, [](Rank& rank) { AddFloats(rank, 100); }), std::vector<int>{0});
  EXPECT_EQ(ExitCodes(1, [](Rank& rank) { AddFloats(rank, 101); }), std::vector<int>{kFound});
}

}  // namespace
}  // namespace lockstep::trainer::red_zone_test
