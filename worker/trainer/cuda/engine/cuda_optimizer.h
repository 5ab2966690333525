// AdamW on a GPU, with clipping by the global norm, as model/adamw.h has it. The norm, the scale
// that follows from it and the update are enqueued together: the host waits once a step, for the
// outcome.
//
//   optimizer->Measure(gradients);             // summed, with the tail behind them
//   all.AllGatherAsync(optimizer->row(), optimizer->rows(), ...);  // where ranks share a model
//   optimizer->Update(replica, gradients, options);
//   Result<CudaStepOutcome> outcome = optimizer->Finish();
//
// Its numbers differ from AdamWStep's in the last places only: the norm, from which the scale of
// the gradients follows, is summed in another order.
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_ENGINE_CUDA_OPTIMIZER_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_ENGINE_CUDA_OPTIMIZER_H_

#include <array>
#include <memory>

#include "base/result.h"
#include "worker/trainer/collectives/cuda/cuda.h"
#include "worker/trainer/cuda/cuda_gpt.h"
#include "worker/trainer/cuda/pinned_memory.h"
#include "worker/trainer/engine/mesh.h"
#include "worker/trainer/engine/sync.h"

namespace lockstep::trainer {

// In the GPU's memory, flat, as Parameters(shape, stage) arranges them.
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
  // Works on the model's stream and writes its operands. `model`, which is of the mesh's stage,
  // outlives this.
  static Result<std::unique_ptr<CudaOptimizer>> Create(
      const std::shared_ptr<const collectives::CudaDevice>& device, const Shape& shape,
      const Mesh& mesh, CudaGpt& model);
  // What Create allocates on the GPU.
  static size_t PredictBytes(const Shape& shape, const Mesh& mesh);

  // Enqueues what the norm of `gradients`, of this rank's stage, takes; kTailSize values lie behind
  // them.
  Status Measure(const float* gradients);
  // What it makes, and a place for all ranks': of a mesh of several ranks it is gathered before
  // Update.
  collectives::ConstSpan row() const;
  collectives::Span rows() const;
  // Enqueues one update of all parameters here.
  Status Update(const CudaReplica& replica, const float* gradients, const StepOptions& options);
  // Waits for the last Update.
  Result<CudaStepOutcome> Finish();

 private:
  struct Buffers;
  struct Sizes {
    Sizes(const Shape& shape, const Mesh& mesh);

    size_t count;     // of the stage's parameters
    size_t pieces;    // of them
    size_t of_model;  // pieces
    size_t width;     // of a rank's row: pieces of any stage, and the tail
    size_t rows;      // of ranks
  };

  CudaOptimizer(std::shared_ptr<const collectives::CudaDevice> device, const Shape& shape,
                const Mesh& mesh, CudaGpt& model, collectives::DeviceMemory memory,
                PinnedMemory outcome);
  Status FillTables(const Shape& shape);
  Buffers buffers() const;
  // Of a rank: its pieces' sums, and behind them its tail.
  double* RowOf(int rank) const;
  float* TailOf(int rank) const;
  template <typename A>
  Status UpdateAs(const CudaReplica& replica, const float* gradients, const StepOptions& options);
  Status CopyToHost(void* to, const void* from, size_t bytes);

  std::shared_ptr<const collectives::CudaDevice> device_;
  const Mesh mesh_;
  const Sizes sizes_;
  CudaGpt& model_;
  collectives::DeviceMemory memory_;
  PinnedMemory outcome_;  // a StepScale, then the tail of each of a pipeline's ranks
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_ENGINE_CUDA_OPTIMIZER_H_
