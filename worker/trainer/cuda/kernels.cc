#include "worker/trainer/cuda/kernels.h"

#include <utility>

namespace lockstep::trainer {

Result<Kernels> Kernels::Load(const std::shared_ptr<const collectives::CudaDevice>& device,
                              std::span<const DeviceImage> images) {
  Result<collectives::CudaStream> stream = collectives::CudaStream::Create(device);
  if (!stream.ok()) return stream.error();
  Kernels kernels(std::make_shared<Loaded>(device), std::move(*stream));
  const Result<int> capability = device->ComputeCapability();
  if (!capability.ok()) return capability.error();
  std::string refused;
  for (const DeviceImage& image : images) {
    if (image.oldest > *capability) continue;
    const Status loaded = device->driver().AwaitMemory("cuModuleLoadData", [&] {
      return device->api().module_load(&kernels.loaded_->module, image.data.data());
    });
    if (loaded.ok()) return kernels;
    const Error& failed = loaded.error();
    if (failed.kind != ErrorKind::kInternal) return failed;  // no fault of the image's
    refused += (refused.empty() ? "" : "; ") + std::string(image.what) + ": " + failed.message;
  }
  if (refused.empty()) {
    return Error::NotFound(
        "GPU " + device->name() + " has compute capability " + std::to_string(*capability / 10) +
        "." + std::to_string(*capability % 10) + ", and the kernels need 8.0 (Ampere) or newer");
  }
  return Error::NotFound("the driver loads no kernels on GPU " + device->name() + " (" + refused +
                         "): it serves CUDA " +
                         collectives::CudaVersionText(device->driver().version()) +
                         ", and their PTX needs 12.0 or newer; update the driver");
}

Kernels::Loaded::~Loaded() {
  if (module != nullptr && device->Enter().ok()) device->api().module_unload(module);
}

Result<Kernels> Kernels::WithNewStream() const {
  Result<collectives::CudaStream> stream = collectives::CudaStream::Create(loaded_->device);
  if (!stream.ok()) return stream.error();
  return Kernels(loaded_, std::move(*stream));
}

Status Kernels::LaunchAny(const collectives::CudaStream& stream, const char* name,
                          const gpu::LaunchShape& shape, void* arguments) {
  const collectives::CudaDevice& device = *loaded_->device;
  if (Status entered = device.Enter(); !entered.ok()) return entered;
  auto [found, first] = functions_.try_emplace(name, nullptr);
  if (first) {
    const collectives::cuda::Code code =
        device.api().module_get_function(&found->second, loaded_->module, name);
    if (Status got = device.driver().Check("cuModuleGetFunction of " + std::string(name), code);
        !got.ok()) {
      functions_.erase(found);
      return got;
    }
  }
  const collectives::cuda::Code code =
      device.api().launch_kernel(found->second, shape.blocks_x, shape.blocks_y, 1, shape.threads, 1,
                                 1, shape.shared_bytes, stream.get(), &arguments, nullptr);
  return device.driver().Check("cuLaunchKernel of " + std::string(name), code);
}

}  // namespace lockstep::trainer
