#include "worker/trainer/cuda/cuda_optimizer.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <utility>
#include <vector>

#include "worker/trainer/cuda/cuda_buffers.h"
#include "worker/trainer/model/adamw.h"
#include "worker/trainer/model/kernels.h"

namespace lockstep::trainer {

using collectives::CudaDevice;
using collectives::DeviceMemory;

struct CudaOptimizer::Buffers {
  Buffers(size_t count, DeviceArena& arena)
      : decays(arena.Take<uint8_t>(BlocksOf(count, gpu::kDecayGrain))),
        partial(arena.Take<double>(BlocksOf(count, gpu::kNormBlock))),
        scale(arena.Take<gpu::StepScale>(1)) {}

  uint8_t* decays;        // [count / kDecayGrain], 1 where they decay
  double* partial;        // of the norm
  gpu::StepScale* scale;  // [1]
};

size_t CudaOptimizer::PredictBytes(const Shape& shape) {
  DeviceArena counter;
  const Buffers buffers(ParameterCount(shape), counter);
  return counter.used();
}

Result<std::unique_ptr<CudaOptimizer>> CudaOptimizer::Create(
    const std::shared_ptr<const CudaDevice>& device, const Shape& shape, CudaGpt& model) {
  Result<DeviceMemory> memory = DeviceMemory::Allocate(device, PredictBytes(shape));
  if (!memory.ok()) return memory.error();
  Result<PinnedMemory> outcome = PinnedMemory::Allocate(device, sizeof(Outcome));
  if (!outcome.ok()) return outcome.error();
  std::unique_ptr<CudaOptimizer> optimizer(new CudaOptimizer(
      device, ParameterCount(shape), model, std::move(*memory), std::move(*outcome)));
  if (Status set = optimizer->SetDecays(shape); !set.ok()) return set.error();
  return optimizer;
}

Status CudaOptimizer::SetDecays(const Shape& shape) {
  std::vector<uint8_t> decays(BlocksOf(count_, gpu::kDecayGrain));
  for (const Parameter& parameter : Parameters(shape)) {
    assert(parameter.offset % gpu::kDecayGrain == 0 && parameter.size % gpu::kDecayGrain == 0);
    const auto first = decays.begin() + static_cast<ptrdiff_t>(parameter.offset / gpu::kDecayGrain);
    std::fill_n(first, parameter.size / gpu::kDecayGrain, parameter.decays ? 1 : 0);
  }
  return memory_.CopyFrom(decays.data(), decays.size());  // the arena's first
}

template <typename A>
Status CudaOptimizer::Update(const CudaReplica& replica, const float* gradients,
                             const StepOptions& options) {
  DeviceArena arena(memory_.data());
  const Buffers b(count_, arena);
  Kernels& kernels = model_.kernels();
  const gpu::SquaredNorm norm{.x = gradients, .partial = b.partial, .count = count_};
  if (Status launched = kernels.Launch(norm); !launched.ok()) return launched;
  if (Status launched = kernels.Launch(gpu::ClipScale{.partial = b.partial,
                                                      .loss = gradients + count_ + kTailLoss,
                                                      .scale = b.scale,
                                                      .parts = norm.parts(),
                                                      .mean = 1.0 / options.micro_batches,
                                                      .clip = options.clip});
      !launched.ok())
    return launched;
  const CudaOperands operands = model_.operands();
  const AdamWFactors<float> factors =
      FactorsOf(options.t, options.learning_rate, 1, true, options.adamw);
  if (Status launched = kernels.Launch(gpu::AdamW<A>{.parameters = replica.parameters,
                                                     .gradients = gradients,
                                                     .moment1 = replica.moment1,
                                                     .moment2 = replica.moment2,
                                                     .operands = static_cast<A*>(operands.data),
                                                     .decays = b.decays,
                                                     .scale = b.scale,
                                                     .first = 0,
                                                     .count = count_,
                                                     .layout = operands.layout,
                                                     .keep = factors.keep,
                                                     .beta1 = factors.beta1,
                                                     .beta2 = factors.beta2,
                                                     .rate = factors.rate,
                                                     .root = factors.root,
                                                     .epsilon = factors.epsilon});
      !launched.ok())
    return launched;
  auto* outcome = outcome_.As<Outcome>();
  if (Status copied = CopyToHost(&outcome->scale, b.scale, sizeof(outcome->scale)); !copied.ok())
    return copied;
  return CopyToHost(outcome->tail, gradients + count_, sizeof(outcome->tail));
}

Status CudaOptimizer::CopyToHost(void* to, const void* from, size_t bytes) {
  return device_->driver().Check(
      "cuMemcpyDtoHAsync of a step's outcome",
      device_->api().copy_to_host(to, reinterpret_cast<uintptr_t>(from), bytes,
                                  model_.kernels().stream().get()));
}

Status CudaOptimizer::Step(const CudaReplica& replica, const float* gradients,
                           const StepOptions& options) {
  return model_.operands().precision == core::Precision::kBf16
             ? Update<Bf16>(replica, gradients, options)
             : Update<float>(replica, gradients, options);
}

Result<CudaStepOutcome> CudaOptimizer::Finish() {
  if (Status waited = model_.kernels().Synchronize(); !waited.ok()) return waited.error();
  const auto* outcome = outcome_.As<Outcome>();
  CudaStepOutcome result{.gradient_norm = outcome->scale.norm,
                         .skipped = outcome->scale.finite == 0};
  std::copy_n(outcome->tail, kTailSize, result.tail.begin());
  return result;
}

}  // namespace lockstep::trainer
