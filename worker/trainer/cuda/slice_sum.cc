#include "worker/trainer/cuda/slice_sum.h"

#include <utility>

namespace lockstep::trainer {
namespace {

class CudaSliceSum final : public collectives::SliceSum {
 public:
  explicit CudaSliceSum(Kernels kernels) : kernels_(std::move(kernels)) {}

  Status Launch(const Job& job, const collectives::CudaStream& stream) override {
    return kernels_.LaunchOn(stream, gpu::SliceSum{.parts = job.parts,
                                                   .sum = job.sum,
                                                   .count = job.count,
                                                   .stride = job.stride,
                                                   .n = job.n});
  }
  // The driver may load a kernel at its first launch.
  Status WarmUp(const std::shared_ptr<const collectives::CudaDevice>& device) {
    Result<collectives::DeviceMemory> memory =
        collectives::DeviceMemory::Allocate(device, sizeof(float));
    if (!memory.ok()) return memory.error();
    if (Status cleared = memory->Clear(); !cleared.ok()) return cleared;
    auto* one = static_cast<float*>(memory->data());
    const Status launched =
        Launch({.parts = one, .sum = one, .count = 1, .stride = 1, .n = 1}, kernels_.stream());
    return launched.ok() ? kernels_.Synchronize() : launched;
  }

 private:
  Kernels kernels_;
};

Result<std::unique_ptr<collectives::SliceSum>> Make(
    Result<Kernels> kernels, const std::shared_ptr<const collectives::CudaDevice>& device) {
  if (!kernels.ok()) return kernels.error();
  auto made = std::make_unique<CudaSliceSum>(std::move(*kernels));
  if (Status warm = made->WarmUp(device); !warm.ok()) return warm.error();
  return std::unique_ptr<collectives::SliceSum>(std::move(made));
}

}  // namespace

Result<std::unique_ptr<collectives::SliceSum>> MakeSliceSum(
    const std::shared_ptr<const collectives::CudaDevice>& device) {
  return Make(Kernels::Load(device), device);
}

collectives::MakeSliceSum MakeSliceSumOf(const Kernels& kernels) {
  return [&kernels](const std::shared_ptr<const collectives::CudaDevice>& device) {
    return Make(kernels.WithNewStream(), device);
  };
}

}  // namespace lockstep::trainer
