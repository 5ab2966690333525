// The kernel of the tree's sums, which whoever makes a Communicator on NCCL hands over: device code
// is built and loaded above this folder (worker/trainer/cuda).
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_CUDA_SLICE_SUM_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_CUDA_SLICE_SUM_H_

#include <cstddef>
#include <functional>
#include <memory>

#include "base/result.h"

namespace lockstep::collectives {

class CudaDevice;
class CudaStream;

class SliceSum {
 public:
  // sum[i] = T(parts[0][i], ..., parts[n-1][i]) for i < count, in the order of ReduceTree
  // (gloo/reduce.h). In device memory; part k begins at parts + k * stride.
  struct Job {
    const float* parts = nullptr;
    float* sum = nullptr;
    size_t count = 0;
    size_t stride = 0;
    unsigned n = 0;
  };

  virtual ~SliceSum() = default;
  // Launches it on `stream`. Loads nothing any more: that may wait for the device.
  virtual Status Launch(const Job& job, const CudaStream& stream) = 0;
};

// kNotFound where the program has no kernels for this GPU.
using MakeSliceSum =
    std::function<Result<std::unique_ptr<SliceSum>>(const std::shared_ptr<const CudaDevice>&)>;

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_CUDA_SLICE_SUM_H_
