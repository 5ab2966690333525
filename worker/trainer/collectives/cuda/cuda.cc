#include "worker/trainer/collectives/cuda/cuda.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <utility>

namespace lockstep::collectives {
namespace {

std::atomic<bool> all_abandoned = false;

}  // namespace

void CudaDevice::AbandonAll() { all_abandoned.store(true); }

bool CudaDevice::AllAbandoned() { return all_abandoned.load(); }

Result<std::shared_ptr<const CudaDevice>> CudaDevice::Open(int index) {
  Result<std::shared_ptr<const CudaDriver>> driver = CudaDriver::Load();
  if (!driver.ok()) return driver.error();
  const int count = (*driver)->device_count();
  if (index < 0 || index >= count) {
    return Error::NotFound(
        "GPU " + std::to_string(index) + " is needed, but this process sees " +
        std::to_string(count) +
        ": each process of a machine has the GPU of its local rank, so ask for as many GPUs as "
        "processesPerMachine, or check CUDA_VISIBLE_DEVICES");
  }
  std::shared_ptr<CudaDevice> device(new CudaDevice(std::move(*driver), index));
  if (Status retained = device->Retain(); !retained.ok()) return retained.error();
  return std::shared_ptr<const CudaDevice>(std::move(device));
}

Status CudaDevice::Retain() {
  if (Status got = driver_->Check("cuDeviceGet", api().device_get(&device_, index_)); !got.ok())
    return got;
  std::array<char, 256> name{};
  if (Status named = driver_->Check(
          "cuDeviceGetName",
          api().device_get_name(name.data(), static_cast<int>(name.size()), device_));
      !named.ok())
    return named;
  name_ = name.data();
  // Who waits for the GPU leaves its processor to others: to data, and to the kernel's network.
  const cuda::Code flagged = api().primary_context_set_flags(device_, cuda::kScheduleBlockingSync);
  if (flagged != cuda::kSuccess && flagged != cuda::kPrimaryContextActive)
    return driver_->Failure("cuDevicePrimaryCtxSetFlags", flagged);
  cuda::Context context = nullptr;
  Status retained =
      driver_->AwaitMemory("cuDevicePrimaryCtxRetain of GPU " + std::to_string(index_),
                           [&] { return api().primary_context_retain(&context, device_); });
  if (!retained.ok()) return retained;
  context_ = context;
  return {};
}

CudaDevice::~CudaDevice() {
  if (context_ != nullptr && !AllAbandoned()) api().primary_context_release(device_);
}

Status CudaDevice::Enter() const {
  if (AllAbandoned()) return Error::Unavailable("this process has abandoned its GPUs");
  return driver_->Check("cuCtxSetCurrent", api().context_set_current(context_));
}

Result<int> CudaDevice::ComputeCapability() const {
  int major = 0;
  int minor = 0;
  if (Status got = GetAttributes(
          {{&major, cuda::kComputeCapabilityMajor}, {&minor, cuda::kComputeCapabilityMinor}});
      !got.ok())
    return got.error();
  return major * 10 + minor;
}

Result<std::string> CudaDevice::PciAddress() const {
  int domain = 0;
  int bus = 0;
  int device = 0;
  if (Status got = GetAttributes(
          {{&domain, cuda::kPciDomain}, {&bus, cuda::kPciBus}, {&device, cuda::kPciDevice}});
      !got.ok())
    return got.error();
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.0", static_cast<unsigned>(domain),
                static_cast<unsigned>(bus), static_cast<unsigned>(device));
  return std::string(text.data());
}

Status CudaDevice::GetAttributes(std::initializer_list<std::pair<int*, int>> attributes) const {
  for (const auto& [value, attribute] : attributes) {
    if (Status got = driver_->Check("cuDeviceGetAttribute",
                                    api().device_get_attribute(value, attribute, device_));
        !got.ok())
      return got;
  }
  return {};
}

Result<CudaDevice::Memory> CudaDevice::LookAtMemory() const {
  if (Status entered = Enter(); !entered.ok()) return entered.error();
  Memory memory;
  if (Status asked = driver_->Check("cuMemGetInfo", api().memory_info(&memory.free, &memory.total));
      !asked.ok())
    return asked.error();
  return memory;
}

Result<CudaStream> CudaStream::Create(std::shared_ptr<const CudaDevice> device,
                                      StreamPriority priority) {
  if (Status entered = device->Enter(); !entered.ok()) return entered.error();
  int lowest = 0;
  int highest = 0;  // the smaller number
  if (Status asked = device->driver().Check("cuCtxGetStreamPriorityRange",
                                            device->api().stream_priorities(&lowest, &highest));
      !asked.ok())
    return asked.error();
  cuda::Stream stream = nullptr;
  const cuda::Code code = device->api().stream_create(
      &stream, cuda::kStreamNonBlocking, priority == StreamPriority::kHighest ? highest : lowest);
  if (code != cuda::kSuccess) return device->driver().Failure("cuStreamCreateWithPriority", code);
  return CudaStream(std::move(device), stream);
}

CudaStream::CudaStream(CudaStream&& other) noexcept
    : device_(std::move(other.device_)), stream_(std::exchange(other.stream_, nullptr)) {}

CudaStream::~CudaStream() {
  if (stream_ != nullptr && device_->Enter().ok()) device_->api().stream_destroy(stream_);
}

Status CudaStream::Synchronize() const {
  if (Status entered = device_->Enter(); !entered.ok()) return entered;
  return device_->driver().Check("cuStreamSynchronize", device_->api().stream_synchronize(stream_));
}

Status CudaStream::WaitFor(const CudaEvent& event) const {
  if (Status entered = device_->Enter(); !entered.ok()) return entered;
  return device_->driver().Check("cuStreamWaitEvent",
                                 device_->api().stream_wait_event(stream_, event.get(), 0));
}

Result<CudaEvent> CudaEvent::Create(std::shared_ptr<const CudaDevice> device, bool timed) {
  if (Status entered = device->Enter(); !entered.ok()) return entered.error();
  cuda::Event event = nullptr;
  const cuda::Code code = device->api().event_create(
      &event, cuda::kEventBlockingSync | (timed ? 0 : cuda::kEventDisableTiming));
  if (code != cuda::kSuccess) return device->driver().Failure("cuEventCreate", code);
  return CudaEvent(std::move(device), event);
}

CudaEvent::CudaEvent(CudaEvent&& other) noexcept
    : device_(std::move(other.device_)), event_(std::exchange(other.event_, nullptr)) {}

CudaEvent::~CudaEvent() {
  if (event_ != nullptr && device_->Enter().ok()) device_->api().event_destroy(event_);
}

Status CudaEvent::Record(const CudaStream& stream) const {
  if (Status entered = device_->Enter(); !entered.ok()) return entered;
  return device_->driver().Check("cuEventRecord",
                                 device_->api().event_record(event_, stream.get()));
}

Result<bool> CudaEvent::Done() const {
  if (Status entered = device_->Enter(); !entered.ok()) return entered.error();
  const cuda::Code code = device_->api().event_query(event_);
  if (code == cuda::kNotReady) return false;
  if (code != cuda::kSuccess) return device_->driver().Failure("cuEventQuery", code);
  return true;
}

Status CudaEvent::Wait() const {
  if (Status entered = device_->Enter(); !entered.ok()) return entered;
  return device_->driver().Check("cuEventSynchronize", device_->api().event_synchronize(event_));
}

Result<Duration> CudaEvent::Since(const CudaEvent& earlier) const {
  if (Status entered = device_->Enter(); !entered.ok()) return entered.error();
  float elapsed = 0;
  const cuda::Code code = device_->api().event_elapsed_time(&elapsed, earlier.event_, event_);
  if (code != cuda::kSuccess) return device_->driver().Failure("cuEventElapsedTime", code);
  return duration_cast<Duration>(std::chrono::duration<float, std::milli>(elapsed));
}

Result<DeviceMemory> DeviceMemory::Allocate(const std::shared_ptr<const CudaDevice>& device,
                                            size_t bytes) {
  Result<CudaStream> stream = CudaStream::Create(device);
  if (!stream.ok()) return stream.error();
  DeviceMemory memory(device, std::move(*stream), bytes);
  const std::string what =
      "cuMemAlloc of " + std::to_string(bytes) + " bytes on GPU " + std::to_string(device->index());
  const Result<CudaDevice::Memory> there = device->LookAtMemory();
  if (!there.ok()) return there.error();
  if (bytes > there->total) return device->driver().Failure(what, cuda::kOutOfMemory);
  // cuMemAlloc refuses to allocate nothing.
  const Status taken = device->driver().AwaitMemory(what, [&] {
    return device->api().memory_allocate(&memory.address_, std::max<size_t>(bytes, 1));
  });
  if (!taken.ok()) return taken.error();
  return memory;
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : device_(std::move(other.device_)),
      stream_(std::move(other.stream_)),
      bytes_(std::exchange(other.bytes_, 0)),
      address_(std::exchange(other.address_, 0)) {}

DeviceMemory::~DeviceMemory() {
  if (address_ != 0 && device_->Enter().ok()) device_->api().memory_free(address_);
}

void* DeviceMemory::data() const {
  return reinterpret_cast<void*>(address_);  // NOLINT(performance-no-int-to-ptr): CUdeviceptr
}

Status DeviceMemory::CheckRange(size_t bytes, size_t offset) const {
  if (offset <= bytes_ && bytes <= bytes_ - offset) return device_->Enter();
  return Error::Invalid(std::to_string(bytes) + " bytes at " + std::to_string(offset) +
                        " are beyond the " + std::to_string(bytes_) + " allocated");
}

Status DeviceMemory::CopyFrom(const void* host, size_t bytes, size_t offset) {
  if (Status checked = CheckRange(bytes, offset); !checked.ok()) return checked;
  const cuda::Code code =
      device_->api().copy_to_device(address_ + offset, host, bytes, stream_.get());
  if (code != cuda::kSuccess) return device_->driver().Failure("cuMemcpyHtoDAsync", code);
  return stream_.Synchronize();
}

Status DeviceMemory::CopyTo(void* host, size_t bytes, size_t offset) const {
  if (Status checked = CheckRange(bytes, offset); !checked.ok()) return checked;
  const cuda::Code code =
      device_->api().copy_to_host(host, address_ + offset, bytes, stream_.get());
  if (code != cuda::kSuccess) return device_->driver().Failure("cuMemcpyDtoHAsync", code);
  return stream_.Synchronize();
}

Status DeviceMemory::Clear() {
  if (Status entered = device_->Enter(); !entered.ok()) return entered;
  const cuda::Code code = device_->api().memory_set(address_, 0, bytes_, stream_.get());
  if (code != cuda::kSuccess) return device_->driver().Failure("cuMemsetD8Async", code);
  return stream_.Synchronize();
}

}  // namespace lockstep::collectives
