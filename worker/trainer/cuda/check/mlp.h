// The test model on a GPU: one rank's part of a data-parallel step, its gradients reduced by a
// Communicator in two buckets, the first while backward still computes the second.
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_CHECK_MLP_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_CHECK_MLP_H_

#include <memory>
#include <vector>

#include "base/result.h"
#include "worker/trainer/collectives/collectives.h"
#include "worker/trainer/collectives/cuda/cuda.h"
#include "worker/trainer/cuda/check/mlp_shape.h"
#include "worker/trainer/cuda/kernels.h"

namespace lockstep::trainer {

class CudaMlp {
 public:
  // For batches of `rows` rows on this rank.
  static Result<std::unique_ptr<CudaMlp>> Create(
      const std::shared_ptr<const collectives::CudaDevice>& device, const MlpShape& shape,
      unsigned rows);

  // Host to GPU, and back.
  Status SetParameters(const std::vector<float>& values);
  Result<std::vector<float>> parameters() const;
  Result<std::vector<float>> gradients() const;
  // All ranks get rank 0's.
  Status BroadcastParameters(collectives::Communicator& all);

  // The gradients of the mean loss over all ranks' batches, on every rank; returns that loss.
  Result<double> ComputeGradients(const MlpBatch& batch, collectives::Communicator& all);
  Status Descend(float rate);

 private:
  // Everything on the GPU, float32.
  struct Buffers {
    collectives::DeviceMemory parameters;  // [MlpShape::parameters()]
    collectives::DeviceMemory gradients;   // the same
    collectives::DeviceMemory x;           // [rows][in]
    collectives::DeviceMemory target;      // [rows][out]
    collectives::DeviceMemory h;           // [rows][hidden]
    collectives::DeviceMemory dh;          // [rows][hidden]
    collectives::DeviceMemory y;           // [rows][out]
    collectives::DeviceMemory dy;          // [rows][out]
    collectives::DeviceMemory squares;     // [rows][out]
    collectives::DeviceMemory loss;        // [1]
  };

  CudaMlp(Kernels kernels, Buffers buffers, const MlpShape& shape, unsigned rows)
      : kernels_(std::move(kernels)), buffers_(std::move(buffers)), shape_(shape), rows_(rows) {}
  float* Parameter(unsigned offset) const;
  float* Gradient(unsigned offset) const;
  Status WarmUp();
  Status Forward(float scale);
  Status BackwardOutput();
  Status BackwardHidden();
  Result<double> ReduceLoss(collectives::Communicator& all);

  Kernels kernels_;
  Buffers buffers_;
  MlpShape shape_;
  unsigned rows_;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_CHECK_MLP_H_
