// What the stand-in for libcuda.so.1 offers beside CUDA's own functions: to the stand-in for
// libnccl.so.2, which is linked to it.
#ifndef LOCKSTEP_TESTS_NCCL_STAND_IN_CUDA_STAND_IN_H_
#define LOCKSTEP_TESTS_NCCL_STAND_IN_CUDA_STAND_IN_H_

#include <cstddef>
#include <functional>

#include "worker/collectives/nccl/cuda_api.h"

namespace lockstep::nccl_stand_in {

// Runs `work` on the stream's thread, after all that was put there before.
void Enqueue(collectives::cuda::Stream stream, std::function<void()> work);

// Whether all of it lies in one allocation of cuMemAlloc.
bool IsDeviceMemory(const void* data, size_t bytes);

// Whether the calling thread has a current context.
bool HasContext();

}  // namespace lockstep::nccl_stand_in

#endif  // LOCKSTEP_TESTS_NCCL_STAND_IN_CUDA_STAND_IN_H_
