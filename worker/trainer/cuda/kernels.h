// The GPU's kernels, loaded on one GPU and launched on one stream.
//
//   Result<Kernels> kernels = Kernels::Load(device);
//   kernels->Launch(gpu::TreeAdd{.sum = sum, .part = part, .count = count});
//   kernels->Synchronize();
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_KERNELS_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_KERNELS_H_

#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "worker/trainer/collectives/cuda/cuda.h"
#include "worker/trainer/cuda/device/gpt_kernels.h"
#include "worker/trainer/cuda/device_image.h"

namespace lockstep::trainer {

class Kernels {
 public:
  // The first of `images` that this GPU takes. kNotFound where it takes none: it is too old, or its
  // driver is.
  static Result<Kernels> Load(const std::shared_ptr<const collectives::CudaDevice>& device,
                              std::span<const DeviceImage> images = DeviceImages());
  // The same loaded code, with another stream.
  Result<Kernels> WithNewStream() const;

  // Starts the kernel of these arguments (gpt_kernels.h, mlp_kernels.h), after all launched before.
  template <typename Arguments>
  Status Launch(Arguments arguments) {
    return LaunchOn(stream_, arguments);
  }
  // The same on another stream than its own.
  template <typename Arguments>
  Status LaunchOn(const collectives::CudaStream& stream, Arguments arguments) {
    return LaunchAny(stream, Arguments::kName, arguments.shape(), &arguments);
  }
  // Waits for all of it.
  Status Synchronize() const { return stream_.Synchronize(); }

  const collectives::CudaStream& stream() const { return stream_; }

 private:
  // What cuModuleLoadData loaded, until the last Kernels of it goes.
  struct Loaded {
    explicit Loaded(std::shared_ptr<const collectives::CudaDevice> its) : device(std::move(its)) {}
    ~Loaded();
    Loaded(const Loaded&) = delete;
    Loaded& operator=(const Loaded&) = delete;

    std::shared_ptr<const collectives::CudaDevice> device;
    collectives::cuda::Module module = nullptr;
  };

  Kernels(std::shared_ptr<Loaded> loaded, collectives::CudaStream stream)
      : loaded_(std::move(loaded)), stream_(std::move(stream)) {}
  Status LaunchAny(const collectives::CudaStream& stream, const char* name,
                   const gpu::LaunchShape& shape, void* arguments);

  std::shared_ptr<Loaded> loaded_;
  collectives::CudaStream stream_;
  std::map<const char*, collectives::cuda::Function> functions_;  // by kName; found when launched
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_KERNELS_H_
