#include "worker/trainer/cuda/kernels.h"

#include <algorithm>

namespace lockstep::trainer {
namespace {

constexpr unsigned kBlock = 128;  // threads

}  // namespace

Result<Kernels> Kernels::Load(const std::shared_ptr<const collectives::CudaDevice>& device,
                              std::string_view image, const std::vector<const char*>& names) {
  if (image.empty()) {
    return Error::NotFound(
        "this program was built without CUDA kernels: run tools/deps --cuda, then build again "
        "with -D LOCKSTEP_CUDA=ON");
  }
  Result<collectives::CudaStream> stream = collectives::CudaStream::Create(device);
  if (!stream.ok()) return stream.error();
  Kernels kernels(device, std::move(*stream));
  const collectives::cuda::Code code = device->api().module_load(&kernels.module_, image.data());
  if (code != collectives::cuda::kSuccess) {
    Error failure = device->driver().Failure("cuModuleLoadData on GPU " + device->name(), code);
    failure.message += ": the driver serves CUDA " +
                       collectives::CudaVersionText(device->driver().version()) +
                       ", the kernels were built with CUDA 13";
    return failure;
  }
  for (const char* name : names) {
    Status found = device->driver().Check(
        "cuModuleGetFunction of " + std::string(name),
        device->api().module_get_function(&kernels.functions_[name], kernels.module_, name));
    if (!found.ok()) return found.error();
  }
  return kernels;
}

Kernels::Kernels(Kernels&& other) noexcept
    : device_(std::move(other.device_)),
      stream_(std::move(other.stream_)),
      module_(std::exchange(other.module_, nullptr)),
      functions_(std::move(other.functions_)) {}

Kernels::~Kernels() {
  if (module_ != nullptr && device_->Enter().ok()) device_->api().module_unload(module_);
}

Status Kernels::LaunchAny(std::string_view name, unsigned threads, void** arguments) {
  const auto found = functions_.find(name);
  if (found == functions_.end()) return Error::Internal("no kernel " + std::string(name));
  if (Status entered = device_->Enter(); !entered.ok()) return entered;
  const unsigned blocks = std::max(1U, (threads + kBlock - 1) / kBlock);
  const collectives::cuda::Code code = device_->api().launch_kernel(
      found->second, blocks, 1, 1, kBlock, 1, 1, 0, stream_.get(), arguments, nullptr);
  return device_->driver().Check("cuLaunchKernel of " + std::string(name), code);
}

}  // namespace lockstep::trainer
