// One GPU and what this process has on it: memory, streams, events.
//
//   Result<std::shared_ptr<const CudaDevice>> gpu = CudaDevice::Open(local_rank);
//   Result<DeviceMemory> gradients = DeviceMemory::Allocate(*gpu, bytes);
//   gradients->CopyFrom(host.data(), bytes);
//   all.AllReduce({gradients->data(), count, DataType::kFloat32}, Reduction::kSum, "gradients");
//
// CUDA gives each thread a current context. Everything here makes its device's the calling
// thread's first, so any thread may call anything; an object itself is one thread's at a time.
// Allocate before collectives run: cuMemAlloc and cuMemFree may wait for the whole device, and a
// collective in turn for a peer that waits for this process.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_CUDA_CUDA_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_CUDA_CUDA_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/time.h"
#include "worker/trainer/collectives/cuda/cuda_driver.h"

namespace lockstep::collectives {

class CudaDevice {
 public:
  // GPU `index` of those that this process sees. kNotFound says what is missing.
  static Result<std::shared_ptr<const CudaDevice>> Open(int index);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  // Makes the device's primary context, which NCCL uses too, the calling thread's. Fails once all
  // GPUs are abandoned, so that nothing is freed and nobody waits for what does not end.
  Status Enter() const;
  struct Memory {     // bytes
    size_t free = 0;  // what can be allocated now, by any process
    size_t total = 0;
  };
  Result<Memory> LookAtMemory() const;

  // For the end of a process that leaves threads behind on its GPUs.
  static void AbandonAll();
  static bool AllAbandoned();

  int index() const { return index_; }
  // 90 for 9.0.
  Result<int> ComputeCapability() const;
  // "0000:17:00.0", as in /sys/bus/pci/devices.
  Result<std::string> PciAddress() const;
  const std::string& name() const { return name_; }
  const CudaDriver& driver() const { return *driver_; }
  const cuda::Api& api() const { return driver_->api(); }

 private:
  CudaDevice(std::shared_ptr<const CudaDriver> driver, int index)
      : driver_(std::move(driver)), index_(index) {}
  Status Retain();
  Status GetAttributes(std::initializer_list<std::pair<int*, int>> attributes) const;

  std::shared_ptr<const CudaDriver> driver_;
  int index_;
  cuda::Device device_ = 0;
  cuda::Context context_ = nullptr;
  std::string name_;
};

// kHighest goes before all else that waits for the GPU's processors: peers wait for it.
enum class StreamPriority : uint8_t { kLowest, kHighest };

class CudaEvent;

// Work in order, independent of the default stream.
class CudaStream {
 public:
  static Result<CudaStream> Create(std::shared_ptr<const CudaDevice> device,
                                   StreamPriority priority = StreamPriority::kLowest);
  CudaStream(CudaStream&& other) noexcept;
  CudaStream& operator=(CudaStream&& other) = delete;
  ~CudaStream();

  cuda::Stream get() const { return stream_; }
  // Waits for all work on it.
  Status Synchronize() const;
  // What comes after this on the stream waits until `event`, as last recorded, is done; the host
  // does not. An event that was never recorded is done.
  Status WaitFor(const CudaEvent& event) const;

 private:
  CudaStream(std::shared_ptr<const CudaDevice> device, cuda::Stream stream)
      : device_(std::move(device)), stream_(stream) {}

  std::shared_ptr<const CudaDevice> device_;
  cuda::Stream stream_;
};

// A mark in a stream: done when all before it is.
class CudaEvent {
 public:
  // `timed`: for Since, which costs a record of the time at each Record.
  static Result<CudaEvent> Create(std::shared_ptr<const CudaDevice> device, bool timed = false);
  CudaEvent(CudaEvent&& other) noexcept;
  CudaEvent& operator=(CudaEvent&& other) = delete;
  ~CudaEvent();

  cuda::Event get() const { return event_; }
  Status Record(const CudaStream& stream) const;
  // Never waits.
  Result<bool> Done() const;
  // Until it is done.
  Status Wait() const;
  // From `earlier` to this: two timed events that are done.
  Result<Duration> Since(const CudaEvent& earlier) const;

 private:
  CudaEvent(std::shared_ptr<const CudaDevice> device, cuda::Event event)
      : device_(std::move(device)), event_(event) {}

  std::shared_ptr<const CudaDevice> device_;
  cuda::Event event_;
};

// Bytes on the GPU; kTooLarge where it has less, kUnavailable where others keep them. Copies run on
// a stream of its own and return when they are done; collectives and kernels that use the memory
// must be done before.
class DeviceMemory {
 public:
  static Result<DeviceMemory> Allocate(const std::shared_ptr<const CudaDevice>& device,
                                       size_t bytes);
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) = delete;
  ~DeviceMemory();

  // A device address: for the GPU, NCCL and pointer arithmetic alone.
  void* data() const;
  size_t size() const { return bytes_; }

  // From host memory, to `offset`; kInvalid beyond the end.
  Status CopyFrom(const void* host, size_t bytes, size_t offset = 0);
  // To host memory, from `offset`.
  Status CopyTo(void* host, size_t bytes, size_t offset = 0) const;
  Status Clear();

 private:
  DeviceMemory(std::shared_ptr<const CudaDevice> device, CudaStream stream, size_t bytes)
      : device_(std::move(device)), stream_(std::move(stream)), bytes_(bytes) {}
  Status CheckRange(size_t bytes, size_t offset) const;

  std::shared_ptr<const CudaDevice> device_;
  CudaStream stream_;
  size_t bytes_;
  cuda::Address address_ = 0;
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_CUDA_CUDA_H_
