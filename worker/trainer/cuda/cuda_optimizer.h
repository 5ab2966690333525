// AdamW on a GPU, with clipping by the global norm, as model/adamw.h has it. The norm, the scale
// that follows from it and the update are enqueued together: the host waits once a step, for the
// outcome.
//
//   optimizer->Step(replica, gradients, options);  // summed, with the tail behind them
//   Result<CudaStepOutcome> outcome = optimizer->Finish();
//
// Its numbers differ from AdamWStep's in the last places only: the norm, from which the scale of
// the gradients follows, is summed in another order.
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_CUDA_OPTIMIZER_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_CUDA_OPTIMIZER_H_

#include <array>
#include <memory>

#include "base/result.h"
#include "worker/collectives/nccl/cuda.h"
#include "worker/trainer/cuda/cuda_gpt.h"
#include "worker/trainer/cuda/pinned_memory.h"
#include "worker/trainer/engine/sync.h"

namespace lockstep::trainer {

// In the GPU's memory, flat, as Parameters(shape) arranges them.
struct CudaReplica {
  float* parameters = nullptr;
  float* moment1 = nullptr;
  float* moment2 = nullptr;
};

struct CudaStepOutcome {
  std::array<float, kTailSize> tail{};  // what lay behind the gradients
  double gradient_norm = 0;             // of the mean gradient
  bool skipped = false;                 // the loss or the norm was no finite number
};

class CudaOptimizer {
 public:
  // Works on the model's stream and writes its operands. `model` outlives this.
  static Result<std::unique_ptr<CudaOptimizer>> Create(
      const std::shared_ptr<const collectives::CudaDevice>& device, const Shape& shape,
      CudaGpt& model);
  // What Create allocates on the GPU.
  static size_t PredictBytes(const Shape& shape);

  // Enqueues one update of all parameters by `gradients`, behind which kTailSize values lie.
  Status Step(const CudaReplica& replica, const float* gradients, const StepOptions& options);
  // Waits for the last Step.
  Result<CudaStepOutcome> Finish();

 private:
  struct Buffers;
  // What the host reads of a step.
  struct Outcome {
    gpu::StepScale scale;
    float tail[kTailSize];
  };

  CudaOptimizer(std::shared_ptr<const collectives::CudaDevice> device, size_t count, CudaGpt& model,
                collectives::DeviceMemory memory, PinnedMemory outcome)
      : device_(std::move(device)),
        count_(count),
        model_(model),
        memory_(std::move(memory)),
        outcome_(std::move(outcome)) {}
  Status SetDecays(const Shape& shape);
  template <typename A>
  Status Update(const CudaReplica& replica, const float* gradients, const StepOptions& options);
  Status CopyToHost(void* to, const void* from, size_t bytes);

  std::shared_ptr<const collectives::CudaDevice> device_;
  size_t count_;  // of parameters
  CudaGpt& model_;
  collectives::DeviceMemory memory_;
  PinnedMemory outcome_;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_CUDA_OPTIMIZER_H_
