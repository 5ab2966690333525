// What the fake libcuda.so.1 offers beside CUDA's own functions: to the fake for
// libnccl.so.2, which is linked to it.
#ifndef LOCKSTEP_TESTS_FAKE_NCCL_FAKE_CUDA_H_
#define LOCKSTEP_TESTS_FAKE_NCCL_FAKE_CUDA_H_

#include <cstddef>
#include <functional>

#include "worker/trainer/collectives/cuda/cuda_api.h"

namespace lockstep::fake_nccl {

// Runs `work` on the stream's thread, after all that was put there before.
void Enqueue(collectives::cuda::Stream stream, std::function<void()> work);

// Whether all of it lies in one allocation of cuMemAlloc.
bool IsDeviceMemory(const void* data, size_t bytes);

// Whether the calling thread has a current context.
bool HasContext();

}  // namespace lockstep::fake_nccl

#endif  // LOCKSTEP_TESTS_FAKE_NCCL_FAKE_CUDA_H_
