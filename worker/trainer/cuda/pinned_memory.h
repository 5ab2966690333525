// Host memory that the GPU reads and writes by itself: copies from and to it leave the host free.
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_PINNED_MEMORY_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_PINNED_MEMORY_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "worker/trainer/collectives/cuda/cuda.h"

namespace lockstep::trainer {

class PinnedMemory {
 public:
  static Result<PinnedMemory> Allocate(std::shared_ptr<const collectives::CudaDevice> device,
                                       size_t bytes) {
    if (Status entered = device->Enter(); !entered.ok()) return entered.error();
    void* data = nullptr;
    const collectives::cuda::Code code =
        device->api().host_allocate(&data, std::max<size_t>(bytes, 1), 0);
    if (code != collectives::cuda::kSuccess) {
      return device->driver().Failure(
          "cuMemHostAlloc of " + std::to_string(bytes) + " bytes for GPU " + device->name(), code);
    }
    return PinnedMemory(std::move(device), data);
  }
  PinnedMemory(PinnedMemory&& other) noexcept
      : device_(std::move(other.device_)), data_(std::exchange(other.data_, nullptr)) {}
  PinnedMemory& operator=(PinnedMemory&&) = delete;
  ~PinnedMemory() {
    if (data_ != nullptr && device_->Enter().ok()) device_->api().host_free(data_);
  }

  template <typename T>
  T* As() const {
    return static_cast<T*>(data_);
  }

 private:
  PinnedMemory(std::shared_ptr<const collectives::CudaDevice> device, void* data)
      : device_(std::move(device)), data_(data) {}

  std::shared_ptr<const collectives::CudaDevice> device_;
  void* data_;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_PINNED_MEMORY_H_
