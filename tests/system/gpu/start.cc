#include "tests/system/gpu/start.h"

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "worker/trainer/collectives/cuda/cuda.h"
#include "worker/trainer/cuda/kernels.h"
#include "worker/trainer/cuda/libraries/blas.h"

namespace lockstep::gpu {
namespace {

using collectives::CudaDevice;
using collectives::DeviceMemory;

// A launch: the first one of a kernel is what loads it.
Status FirstKernel(const std::shared_ptr<const CudaDevice>& device,
                   std::span<const trainer::DeviceImage> images) {
  Result<trainer::Kernels> kernels = trainer::Kernels::Load(device, images);
  if (!kernels.ok()) return kernels.error();
  constexpr size_t kCount = 1024;
  Result<DeviceMemory> memory = DeviceMemory::Allocate(device, 2 * kCount * sizeof(float));
  if (!memory.ok()) return memory.error();
  if (Status cleared = memory->Clear(); !cleared.ok()) return cleared;
  auto* data = static_cast<float*>(memory->data());
  if (Status launched =
          kernels->Launch(trainer::gpu::Copy{.from = data, .to = data + kCount, .count = kCount});
      !launched.ok())
    return launched;
  return kernels->Synchronize();
}

Status FirstProduct(const std::shared_ptr<const CudaDevice>& device, StartReport* report) {
  Result<std::shared_ptr<const trainer::BlasLibrary>> library = trainer::BlasLibrary::Load();
  if (!library.ok()) return library.error();
  report->blas = (*library)->version();
  constexpr size_t kSize = 64;
  constexpr size_t kMatrix = kSize * kSize * sizeof(float);
  Result<DeviceMemory> memory =
      DeviceMemory::Allocate(device, 3 * kMatrix + trainer::Workspace::kBytes);
  if (!memory.ok()) return memory.error();
  if (Status cleared = memory->Clear(); !cleared.ok()) return cleared;
  char* data = static_cast<char*>(memory->data());
  Result<std::unique_ptr<trainer::Products>> products =
      trainer::Products::Create(device, *library, {data + 3 * kMatrix, trainer::Workspace::kBytes});
  if (!products.ok()) return products.error();
  const Result<size_t> product = (*products)->Add(
      {trainer::ProductKind::kForward, core::Precision::kBf16, kSize, kSize, kSize});
  if (!product.ok()) return product.error();
  Result<collectives::CudaStream> stream = collectives::CudaStream::Create(device);
  if (!stream.ok()) return stream.error();
  if (Status done = (*products)->Run(
          *product, {.first = data, .second = data + kMatrix, .result = data + 2 * kMatrix},
          *stream);
      !done.ok())
    return done;
  return stream->Synchronize();
}

}  // namespace

Result<StartReport> CheckStart(int local_rank) {
  StartReport report;
  const auto timed = [&report](const std::string& what, const std::function<Status()>& part) {
    const auto began = std::chrono::steady_clock::now();
    const Status done = part();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    report.parts.push_back({what, took.count(), done.ok() ? "" : done.error().message});
    return done;
  };
  std::shared_ptr<const CudaDevice> device;
  const Status opened = timed("driver and context", [&]() -> Status {
    Result<std::shared_ptr<const CudaDevice>> open = CudaDevice::Open(local_rank);
    if (!open.ok()) return open.error();
    device = std::move(*open);
    return device->Enter();
  });
  if (!opened.ok()) return opened.error();
  report.device = device->name();
  report.driver = device->driver().version();
  const Result<int> capability = device->ComputeCapability();
  if (!capability.ok()) return capability.error();
  report.capability = *capability;
  // Each by itself, then as the trainer chooses among them.
  for (const trainer::DeviceImage& image : trainer::DeviceImages()) {
    if (image.oldest > *capability) continue;
    (void)timed("kernels from " + std::string(image.what),
                [&] { return FirstKernel(device, {&image, 1}); });
  }
  (void)timed("kernels", [&] { return FirstKernel(device, trainer::DeviceImages()); });
  (void)timed("cuBLASLt and its first product", [&] { return FirstProduct(device, &report); });
  return report;
}

}  // namespace lockstep::gpu
