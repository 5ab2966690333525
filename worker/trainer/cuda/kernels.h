// Kernels of one image, loaded on one GPU and launched on one stream.
//
//   Result<Kernels> kernels = Kernels::Load(device, image);
//   kernels->Launch("sgd", count, parameters, gradients, 0.1F, count);
//   kernels->Synchronize();
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_KERNELS_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_KERNELS_H_

#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "worker/collectives/nccl/cuda.h"

namespace lockstep::trainer {

class Kernels {
 public:
  // `image`: what nvcc made, with kernels `names`. kNotFound where it is empty.
  static Result<Kernels> Load(const std::shared_ptr<const collectives::CudaDevice>& device,
                              std::string_view image, const std::vector<const char*>& names);
  Kernels(Kernels&& other) noexcept;
  Kernels& operator=(Kernels&& other) = delete;
  ~Kernels();

  // Starts at least `threads` threads of kernel `name`, after all launched before. The arguments
  // must have the kernel's own types; the compiler cannot see them.
  template <typename... Arguments>
  Status Launch(std::string_view name, unsigned threads, Arguments... arguments) {
    std::array<void*, sizeof...(Arguments)> pointers{static_cast<void*>(&arguments)...};
    return LaunchAny(name, threads, pointers.data());
  }
  // Waits for all of it.
  Status Synchronize() const { return stream_.Synchronize(); }

 private:
  Kernels(std::shared_ptr<const collectives::CudaDevice> device, collectives::CudaStream stream)
      : device_(std::move(device)), stream_(std::move(stream)) {}
  Status LaunchAny(std::string_view name, unsigned threads, void** arguments);

  std::shared_ptr<const collectives::CudaDevice> device_;
  collectives::CudaStream stream_;
  collectives::cuda::Module module_ = nullptr;
  std::map<std::string, collectives::cuda::Function, std::less<>> functions_;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_KERNELS_H_
