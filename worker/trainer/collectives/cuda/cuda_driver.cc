#include "worker/trainer/collectives/cuda/cuda_driver.h"

#include <unistd.h>

#include <thread>

#include "worker/trainer/collectives/cuda/cuda_library.h"

namespace lockstep::collectives {
namespace {

Status BindAll(const SharedLibrary& library, cuda::Api* api) {
  Binder bind(library);
  bind("cuInit", &api->init)("cuDriverGetVersion", &api->driver_get_version);
  bind("cuGetErrorName", &api->get_error_name)("cuGetErrorString", &api->get_error_string);
  bind("cuDeviceGetCount", &api->device_get_count)("cuDeviceGet", &api->device_get);
  bind("cuDeviceGetName", &api->device_get_name);
  bind("cuDeviceGetAttribute", &api->device_get_attribute);
  bind("cuDevicePrimaryCtxSetFlags_v2", &api->primary_context_set_flags);
  bind("cuDevicePrimaryCtxRetain", &api->primary_context_retain);
  bind("cuDevicePrimaryCtxRelease_v2", &api->primary_context_release);
  bind("cuCtxSetCurrent", &api->context_set_current);
  bind("cuCtxGetStreamPriorityRange", &api->stream_priorities);
  bind("cuStreamCreateWithPriority", &api->stream_create);
  bind("cuStreamDestroy_v2", &api->stream_destroy);
  bind("cuStreamSynchronize", &api->stream_synchronize);
  bind("cuStreamWaitEvent", &api->stream_wait_event);
  bind("cuEventCreate", &api->event_create)("cuEventDestroy_v2", &api->event_destroy);
  bind("cuEventRecord", &api->event_record)("cuEventQuery", &api->event_query);
  bind("cuEventSynchronize", &api->event_synchronize);
  bind("cuEventElapsedTime", &api->event_elapsed_time)("cuMemGetInfo_v2", &api->memory_info);
  bind("cuMemAlloc_v2", &api->memory_allocate)("cuMemFree_v2", &api->memory_free);
  bind("cuMemHostAlloc", &api->host_allocate)("cuMemFreeHost", &api->host_free);
  bind("cuMemHostRegister_v2", &api->host_register);
  bind("cuMemHostUnregister", &api->host_unregister);
  bind("cuMemsetD8Async", &api->memory_set);
  bind("cuMemcpyHtoDAsync_v2", &api->copy_to_device);
  bind("cuMemcpyDtoHAsync_v2", &api->copy_to_host);
  bind("cuModuleLoadData", &api->module_load)("cuModuleUnload", &api->module_unload);
  bind("cuModuleGetFunction", &api->module_get_function)("cuLaunchKernel", &api->launch_kernel);
  return bind.status();
}

bool IsLost(cuda::Code code) {
  return code == cuda::kDeviceUnavailable || code == cuda::kEccUncorrectable ||
         code == cuda::kNvlinkUncorrectable || code == cuda::kContained || code == cuda::kUnknown;
}

// A start that fails because of what this program was given. Every other reason is the machine's.
bool IsOfTheImage(cuda::Code code) {
  return code == cuda::kStubLibrary || code == cuda::kNewerDriverWanted ||
         code == cuda::kInvalidDevice || code == cuda::kCompatNotSupported;
}

std::string WhyNotStarted(cuda::Code code) {
  switch (code) {
    case cuda::kSystemNotReady:
      return "its GPUs are not ready; if it has NVSwitches, nvidia-fabricmanager must run";
    case cuda::kSystemDriverMismatch:
      return "libcuda.so.1 and the kernel's driver have different versions: the driver was updated "
             "while it ran";
    default:
      return "nvidia-smi and the kernel's log (Xid) say more";
  }
}

constexpr Duration kMemoryGlance = milliseconds(200);

}  // namespace

bool CudaDriver::IsInstalled() {
  return access("/proc/driver/nvidia/version", F_OK) == 0 ||
         SharedLibrary::Open("LOCKSTEP_CUDA_LIBRARY", "libcuda.so.1").ok();
}

std::string CudaVersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Result<std::shared_ptr<const CudaDriver>> CudaDriver::Load() {
  Result<SharedLibrary> library = SharedLibrary::Open("LOCKSTEP_CUDA_LIBRARY", "libcuda.so.1");
  if (!library.ok()) {
    return Error::NotFound(
        library.error().message +
        ": no NVIDIA driver here. Install it on the machine; in a pod, ask for GPUs "
        "(resources.limits of nvidia.com/gpu), so that the runtime mounts it; without GPUs use "
        "Gloo");
  }
  std::shared_ptr<CudaDriver> driver(new CudaDriver());
  if (Status bound = BindAll(*library, &driver->api_); !bound.ok()) {
    return Error::NotFound(bound.error().message + ": install a driver that serves CUDA " +
                           CudaVersionText(kOldest) + " or newer");
  }
  if (Status started = driver->Start(); !started.ok()) return started.error();
  return std::shared_ptr<const CudaDriver>(std::move(driver));
}

Status CudaDriver::Start() {
  // Asked before cuInit, which may fail because the driver is old.
  if (Status asked = Check("cuDriverGetVersion", api_.driver_get_version(&version_)); !asked.ok())
    return asked;
  if (version_ < kOldest) {
    return Error::NotFound("the NVIDIA driver serves CUDA " + CudaVersionText(version_) +
                           ", and NCCL needs " + CudaVersionText(kOldest) +
                           " or newer: update the driver");
  }
  cuda::Code code = cuda::kSuccess;
  Status init = AwaitMemory("cuInit", [&] { return code = api_.init(0); });
  if (code == cuda::kNoDevice) {
    return Error::NotFound(
        "the NVIDIA driver is here but shows no GPU: ask for GPUs (resources.limits of "
        "nvidia.com/gpu), check CUDA_VISIBLE_DEVICES and nvidia-smi, or use Gloo");
  }
  if (!init.ok()) {
    if (init.error().kind == ErrorKind::kUnavailable || IsLost(code)) return init;
    const std::string failed = init.error().message + ": the NVIDIA driver does not start";
    if (IsOfTheImage(code)) {
      return Error::NotFound(failed +
                             "; check the libcuda.so.1 of this image and "
                             "CUDA_VISIBLE_DEVICES, or use Gloo");
    }
    return Error{ErrorKind::kBroken,
                 failed + ", so the machine must be replaced: " + WhyNotStarted(code)};
  }
  return Check("cuDeviceGetCount", api_.device_get_count(&device_count_));
}

Error CudaDriver::Failure(const std::string& what, cuda::Code code) const {
  const char* name = nullptr;
  const char* text = nullptr;
  api_.get_error_name(code, &name);
  api_.get_error_string(code, &text);
  const std::string message = what + ": " +
                              (name == nullptr ? "CUDA error " + std::to_string(code) : name) +
                              (text == nullptr ? "" : " (" + std::string(text) + ")");
  if (code == cuda::kOutOfMemory) return Error::TooLarge(message);
  if (!IsLost(code)) return Error::Internal(message);
  return {ErrorKind::kBroken, message +
                                  ": a GPU of this machine is lost or broken, so the machine must "
                                  "be replaced; nvidia-smi and the kernel's log (Xid) show more"};
}

Status CudaDriver::Check(const std::string& what, cuda::Code code) const {
  if (code == cuda::kSuccess) return {};
  return Failure(what, code);
}

Status CudaDriver::AwaitMemory(const std::string& what, const std::function<cuda::Code()>& take,
                               Duration patience) const {
  for (const Time until = BootTime() + patience;;) {
    const cuda::Code code = take();
    if (code != cuda::kOutOfMemory) return Check(what, code);
    if (BootTime() >= until) {
      return Error::Unavailable(Failure(what, code).message + ", for " +
                                std::to_string(duration_cast<seconds>(patience).count()) +
                                " s; another process uses it");
    }
    std::this_thread::sleep_for(kMemoryGlance);
  }
}

}  // namespace lockstep::collectives
