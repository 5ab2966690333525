// NVIDIA's driver as this process sees it: libcuda.so.1, opened at run time.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_CUDA_CUDA_DRIVER_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_CUDA_CUDA_DRIVER_H_

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "worker/trainer/collectives/cuda/cuda_api.h"

namespace lockstep::collectives {

// "12.4" of 12040, as the driver and the toolkit number CUDA.
std::string CudaVersionText(int version);

class CudaDriver {
 public:
  // The oldest that NCCL 2.18 and later run on (11.4).
  static constexpr int kOldest = 11040;

  // How long a GPU's memory is waited for: a killed process's is given back a little after its end.
  static constexpr Duration kMemoryPatience = seconds(30);

  // libcuda.so.1, or the file that LOCKSTEP_CUDA_LIBRARY names. kNotFound says what is missing (the
  // driver, a GPU, a newer driver) and what to do. kBroken: the driver of this machine does not
  // start.
  static Result<std::shared_ptr<const CudaDriver>> Load();
  // This machine has a driver, whether or not it works: the kernel's, or its library.
  static bool IsInstalled();

  const cuda::Api& api() const { return api_; }
  // The newest CUDA that it serves.
  int version() const { return version_; }
  int device_count() const { return device_count_; }

  // "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)": kTooLarge for that, kBroken where the
  // GPU itself is at fault, else kInternal.
  Error Failure(const std::string& what, cuda::Code code) const;
  // Ok for success.
  Status Check(const std::string& what, cuda::Code code) const;
  // Calls `take` until it is not out of memory any more. kUnavailable if that lasts: another
  // process is on the GPU.
  Status AwaitMemory(const std::string& what, const std::function<cuda::Code()>& take,
                     Duration patience = kMemoryPatience) const;

 private:
  CudaDriver() = default;
  Status Start();

  cuda::Api api_;
  int version_ = 0;
  int device_count_ = 0;
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_CUDA_CUDA_DRIVER_H_
