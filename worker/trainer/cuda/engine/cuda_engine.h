// The Engine on a GPU: model, sums and optimizer are enqueued there, and the host waits once a
// step.
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_ENGINE_CUDA_ENGINE_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_ENGINE_CUDA_ENGINE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "base/result.h"
#include "worker/trainer/collectives/cuda/cuda.h"
#include "worker/trainer/cuda/kernels.h"
#include "worker/trainer/cuda/libraries/blas_library.h"
#include "worker/trainer/engine/engine.h"

namespace lockstep::trainer {

// A GPU with all that training on it takes.
struct Gpu {
  // GPU `index` of those that this process sees. kNotFound says what is missing.
  static Result<Gpu> Open(int index);
  // "cuda NVIDIA H100, cuBLASLt 13.1.1": what bits depend on, as InstructionSet() of a CPU.
  std::string InstructionSet() const;
  // The same GPU, for another engine.
  Result<Gpu> Again() const;

  std::shared_ptr<const collectives::CudaDevice> device;
  std::shared_ptr<const BlasLibrary> blas;
  Kernels kernels;
};

// The memory that MakeCudaEngine takes on the GPU, in bytes.
struct CudaMemoryPlan {
  size_t parameters = 0;
  size_t gradients = 0;
  size_t optimizer = 0;
  size_t activations = 0;  // with the copies of the parameters that products read
  size_t libraries = 0;    // at most, of cuBLASLt, loaded kernels and NCCL themselves

  size_t sum() const { return parameters + gradients + optimizer + activations + libraries; }
};
// "412 MB of memory: parameters 41 MB, gradients 123 MB, ...".
std::string ToString(const CudaMemoryPlan& plan);
// Of the mesh's stage.
CudaMemoryPlan PlanCudaMemory(const Shape& shape, const EngineOptions& options, const Mesh& mesh);

// `all` is of device memory on the same GPU, or a world of one; it, `replica`, and what `options`
// point to outlive the engine. The replica, of the mesh's stage, has the first step's values; later
// UpdateReplica writes it: of a whole model on rank 0, of stages in the first pipeline. On other
// ranks its arrays are freed until KeepReplica. kInvalid, with what to choose instead: a model that
// the kernels are not made for, a parameter server, less memory than it takes.
Result<std::unique_ptr<Engine>> MakeCudaEngine(Gpu gpu, const EngineOptions& options,
                                               Replica& replica, collectives::Communicator& all);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_ENGINE_CUDA_ENGINE_H_
