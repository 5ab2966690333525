// The kernel of the tree's sums over NCCL, of this program's own.
//
//   options.slice_sum = MakeSliceSum;  // or MakeSliceSumOf(kernels), where they are loaded already
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_SLICE_SUM_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_SLICE_SUM_H_

#include <memory>

#include "base/result.h"
#include "worker/trainer/collectives/cuda/cuda.h"
#include "worker/trainer/collectives/cuda/slice_sum.h"
#include "worker/trainer/cuda/kernels.h"

namespace lockstep::trainer {

// Fails as Kernels::Load does.
Result<std::unique_ptr<collectives::SliceSum>> MakeSliceSum(
    const std::shared_ptr<const collectives::CudaDevice>& device);
// For the GPU of `kernels`, which outlive Connect alone.
collectives::MakeSliceSum MakeSliceSumOf(const Kernels& kernels);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_SLICE_SUM_H_
