#include "worker/trainer/cuda/cuda_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/worker/trainer/collectives/nccl/rank_processes.h"
#include "tests/worker/trainer/cuda/fake_gpu.h"
#include "tests/worker/trainer/model/random.h"
#include "worker/trainer/cuda/engine/cuda_engine.h"

namespace lockstep::trainer {
namespace {

using collectives::Rank;
using ::testing::FloatNear;
using ::testing::Pointwise;

constexpr Shape kShape = {.layers = 2, .heads = 1, .width = 64, .vocabulary = 96, .context = 16};

Result<std::unique_ptr<CudaDecoder>> Open(std::span<const float> parameters) {
  UseFakeBlas();
  Result<Gpu> gpu = Gpu::Open(0);
  if (!gpu.ok()) Rank::Must(gpu.error());
  return CudaDecoder::Create(gpu->device, gpu->blas, std::move(gpu->kernels), kShape, parameters);
}

std::vector<float> SomeParameters() {
  std::vector<float> parameters(ParameterCount(kShape));
  InitialiseParameters(kShape, 8, parameters);
  for (float& parameter : parameters) parameter *= 2;
  return parameters;
}

TEST(CudaDecoder, SaysWhatTheCpusSayBeyondTheContextToo) {
  collectives::RunRanks(1, [](Rank&) {
    const std::vector<float> parameters = SomeParameters();
    const std::vector<int32_t> tokens = Random(4).Tokens(27, kShape.vocabulary);
    Threads threads(1);
    Decoder right(kShape, parameters, threads);
    const auto made = Open(parameters);
    ASSERT_TRUE(made.ok()) << made.error().message;
    for (int round = 0; round < 2; ++round) {
      // One by one, and then all at once.
      const size_t step = round == 0 ? 1 : tokens.size();
      for (size_t at = 0; at < tokens.size(); at += step) {
        const auto part = std::span(tokens).subspan(at, step);
        const auto logits = (*made)->Read(part);
        ASSERT_TRUE(logits.ok()) << logits.error().message;
        ASSERT_THAT(*logits, Pointwise(FloatNear(1e-5F), *right.Read(part))) << at;
      }
      (*made)->Reset();
      right.Reset();
    }
  });
}

TEST(CudaDecoder, AModelThatTheGpuCannotHoldIsTooLarge) {
  collectives::RunRanks(1, [](Rank&) {
    Rank::Set("FAKE_MEMORY", "1000000");
    const auto made = Open(SomeParameters());
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().kind, ErrorKind::kTooLarge) << made.error().message;
  });
}

}  // namespace
}  // namespace lockstep::trainer
