// A libcuda.so.1 for machines without a GPU. Device memory is host memory; each stream is a thread
// that does its work in order; kernels are the emulator's. It is as strict as the real one
// where a mistake would only show on a GPU: no current context, an address that is not the device's
// and a stream that is gone are errors, and cuMemFree waits for all work on the device.
//
//   FAKE_GPUS             how many GPUs there are (default 8)
//   FAKE_START            what cuInit says, as a CUresult (default 0)
//   FAKE_DRIVER           the CUDA version that the driver serves (default 13000)
//   FAKE_MEMORY           the bytes of a GPU's memory (default: the machine's)
//   FAKE_FULL             "CALL:N": the first N of these say that the GPU is out of memory. CALL is
//                         context, module or memory
//   FAKE_LOST_AT          the nth event recorded (from 1) finds the GPU lost, as all calls after
//                         it
//   FAKE_LOST_AS          what these say, as a CUresult (default 46)
//   FAKE_IMAGE            what cuModuleLoadData says of each image, as a CUresult (default 0)
//   FAKE_LOADS            how many images can be loaded (default: any number)
//   FAKE_CAPABILITY       the compute capability of the GPUs (default 90)
//   FAKE_SCHEDULE         the seed of the order in which a kernel's threads and blocks run
//   FAKE_SLOW_SET_MS      how many ms longer each cuMemsetD8Async takes
//   FAKE_SLOW_COPY_MS     how many ms longer each copy of 64 KiB or more to the host takes
//   FAKE_QUEUE            how many jobs a stream holds; who puts more waits, and
//                         FAKE_STUCK_FILE is made then
#include "tests/fakes/fake_nccl/fake_cuda.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/fakes/emulator/emulator.h"

namespace lockstep::collectives::cuda {

struct ContextObject {
  Device device = 0;
  bool blocking = false;
};

// All of this process.
struct StreamSet {
  std::mutex mutex;
  std::condition_variable changed;
  size_t busy = 0;  // jobs put and not done
};
StreamSet& Streams() {
  static auto* streams = new StreamSet();  // NOLINT: streams may outlive static destruction
  return *streams;
}

struct StreamObject {
  StreamObject() : thread([this] { Run(); }) {}
  ~StreamObject() {
    {
      const std::lock_guard lock(mutex);
      closing = true;
    }
    changed.notify_all();
    thread.join();
  }
  StreamObject(const StreamObject&) = delete;
  StreamObject& operator=(const StreamObject&) = delete;

  void Put(std::function<void()> job) {
    AwaitRoom();
    {
      const std::lock_guard lock(Streams().mutex);
      ++Streams().busy;
    }
    {
      const std::lock_guard lock(mutex);
      work.push_back(std::move(job));
    }
    changed.notify_all();
  }
  // A driver's launch waits while the stream's queue is full.
  void AwaitRoom() {
    const char* setting = std::getenv("FAKE_QUEUE");
    if (setting == nullptr) return;
    const auto room = static_cast<size_t>(std::atoi(setting));
    std::unique_lock lock(mutex);
    if (work.size() < room) return;
    const char* sign = std::getenv("FAKE_STUCK_FILE");
    if (sign != nullptr) close(open(sign, O_CREAT | O_CLOEXEC, 0600));
    changed.wait(lock, [&] { return work.size() < room; });
  }
  void WaitUntilIdle() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return work.empty() && !running; });
  }
  void Run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return closing || !work.empty(); });
      if (work.empty()) return;
      const std::function<void()> job = std::move(work.front());
      work.pop_front();
      changed.notify_all();
      running = true;
      lock.unlock();
      job();
      {
        const std::lock_guard all(Streams().mutex);
        --Streams().busy;
      }
      Streams().changed.notify_all();
      lock.lock();
      running = false;
      changed.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> work;
  bool running = false;
  bool closing = false;
  std::thread thread;  // last: it uses all of the above
};

struct EventObject {
  // Outlives the event while a stream still has it to mark.
  std::shared_ptr<std::atomic<bool>> done = std::make_shared<std::atomic<bool>>(true);
  std::shared_ptr<std::atomic<int64_t>> at;  // steady_clock's; null: never recorded
  bool timed = false;
};

struct ModuleObject {
  std::string image;  // where it is PTX
};

struct FunctionObject {
  const trainer::gpu::HostKernel* kernel = nullptr;
};

}  // namespace lockstep::collectives::cuda

namespace lockstep::fake_nccl {
namespace {

using collectives::cuda::Address;
using collectives::cuda::Code;
using collectives::cuda::Context;
using collectives::cuda::Device;
using collectives::cuda::Event;
using collectives::cuda::Function;
using collectives::cuda::kOutOfMemory;
using collectives::cuda::Module;
using collectives::cuda::Stream;

constexpr Code kOk = 0;
constexpr Code kInvalidValue = 1;
constexpr Code kNotInitialized = 3;
constexpr Code kInvalidDevice = 101;
constexpr Code kInvalidImage = 200;
constexpr Code kInvalidContext = 201;
constexpr Code kInvalidHandle = 400;
constexpr int kHighestPriority = -5;
constexpr Code kDeviceLost = 46;  // CUDA_ERROR_DEVICE_UNAVAILABLE
constexpr Code kNotFound = 500;
constexpr Code kAlreadyRegistered = 712;
constexpr Code kNotRegistered = 713;

int Setting(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : std::atoi(value);
}
int Gpus() { return Setting("FAKE_GPUS", 8); }
Code Lost() { return static_cast<Code>(Setting("FAKE_LOST_AS", kDeviceLost)); }

// One more of these calls; FAKE_FULL lets it find no memory.
bool IsFull(std::string_view call) {
  static std::map<std::string, int, std::less<>> calls;
  static std::mutex mutex;
  const char* setting = std::getenv("FAKE_FULL");
  const std::string_view full = setting == nullptr ? "" : setting;
  if (!full.starts_with(std::string(call) + ":")) return false;
  const std::lock_guard lock(mutex);
  return ++calls[std::string(call)] <= std::atoi(setting + call.size() + 1);
}

// A library with CUDA's interface has state of the process.
struct Process {
  std::mutex mutex;
  bool started = false;
  std::map<uintptr_t, size_t> memory;  // address -> bytes
  size_t allocated = 0;
  std::set<void*> registered;  // host memory
  int events = 0;              // recorded
  int loads = 0;               // of images
  std::atomic<bool> lost = false;
  collectives::cuda::ContextObject contexts[64];
  std::map<std::string, collectives::cuda::FunctionObject, std::less<>> functions;
};
Process& TheProcess() {
  static auto* process = new Process();  // NOLINT: streams may outlive static destruction
  return *process;
}
thread_local Context current_context = nullptr;

void* Pointer(Address address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): CUdeviceptr
}

// Runs at once without a stream, as the default stream would in the end.
Code Run(Stream stream, std::function<void()> work) {
  if (current_context == nullptr) return kInvalidContext;
  if (stream == nullptr) {
    work();
  } else {
    stream->Put(std::move(work));
  }
  return kOk;
}

}  // namespace

void Enqueue(Stream stream, std::function<void()> work) { stream->Put(std::move(work)); }

bool IsDeviceMemory(const void* data, size_t bytes) {
  Process& process = TheProcess();
  const auto address = reinterpret_cast<uintptr_t>(data);
  const std::lock_guard lock(process.mutex);
  auto next = process.memory.upper_bound(address);
  if (next == process.memory.begin()) return false;
  --next;
  return address + bytes <= next->first + next->second;
}

bool HasContext() { return current_context != nullptr; }

}  // namespace lockstep::fake_nccl

// CUDA's own names, as an external program sees them.
using namespace lockstep::fake_nccl;  // NOLINT(google-build-using-namespace)

extern "C" {

Code cuInit(unsigned) {
  if (const Code refused = Setting("FAKE_START", 0); refused != kOk) return refused;
  if (Gpus() == 0) return lockstep::collectives::cuda::kNoDevice;
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  process.started = true;
  return kOk;
}

Code cuDriverGetVersion(int* version) {
  *version = Setting("FAKE_DRIVER", 13000);
  return kOk;
}

Code cuGetErrorName(Code code, const char** name) {
  switch (code) {
    case kInvalidValue:
      *name = "CUDA_ERROR_INVALID_VALUE";
      return kOk;
    case kOutOfMemory:
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      return kOk;
    case kDeviceLost:
      *name = "CUDA_ERROR_DEVICE_UNAVAILABLE";
      return kOk;
    case kInvalidContext:
      *name = "CUDA_ERROR_INVALID_CONTEXT";
      return kOk;
    default:
      *name = nullptr;
      return kInvalidValue;
  }
}

Code cuGetErrorString(Code, const char** text) {
  *text = "the fake says so";
  return kOk;
}

Code cuDeviceGetCount(int* count) {
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  if (!process.started) return kNotInitialized;
  *count = Gpus();
  return kOk;
}

Code cuDeviceGet(Device* device, int index) {
  if (index < 0 || index >= Gpus()) return kInvalidDevice;
  *device = index;
  return kOk;
}

Code cuDeviceGetName(char* name, int length, Device) {
  std::strncpy(name, "Stand-in GPU", static_cast<size_t>(length) - 1);
  return kOk;
}

Code cuDeviceGetAttribute(int* value, int attribute, Device device) {
  const int capability = Setting("FAKE_CAPABILITY", 90);
  if (attribute == lockstep::collectives::cuda::kComputeCapabilityMajor) {
    *value = capability / 10;
  } else if (attribute == lockstep::collectives::cuda::kComputeCapabilityMinor) {
    *value = capability % 10;
  } else if (attribute == lockstep::collectives::cuda::kPciBus) {
    *value = 0xf0 + device;
  } else if (attribute == lockstep::collectives::cuda::kPciDevice ||
             attribute == lockstep::collectives::cuda::kPciDomain) {
    *value = 0;
  } else {
    return kInvalidValue;
  }
  return kOk;
}

// The real one's waits would spin otherwise, and a context that is there keeps its flags.
Code cuDevicePrimaryCtxSetFlags_v2(Device device, unsigned flags) {
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  if (flags != lockstep::collectives::cuda::kScheduleBlockingSync) return kInvalidValue;
  process.contexts[device].blocking = true;
  return kOk;
}

Code cuDevicePrimaryCtxRetain(Context* context, Device device) {
  if (!TheProcess().contexts[device].blocking) return kInvalidContext;
  if (IsFull("context")) return kOutOfMemory;
  *context = &TheProcess().contexts[device];
  return kOk;
}

Code cuDevicePrimaryCtxRelease_v2(Device) { return kOk; }

Code cuCtxSetCurrent(Context context) {
  if (TheProcess().lost.load()) return Lost();
  current_context = context;
  return kOk;
}

Code cuCtxGetStreamPriorityRange(int* lowest, int* highest) {
  if (!HasContext()) return kInvalidContext;
  *lowest = 0;
  *highest = kHighestPriority;
  return kOk;
}

Code cuStreamCreateWithPriority(Stream* stream, unsigned, int priority) {
  if (!HasContext()) return kInvalidContext;
  if (priority > 0 || priority < kHighestPriority) return kInvalidValue;
  *stream = new lockstep::collectives::cuda::StreamObject();
  return kOk;
}

Code cuStreamDestroy_v2(Stream stream) {
  delete stream;
  return kOk;
}

Code cuStreamSynchronize(Stream stream) {
  if (!HasContext()) return kInvalidContext;
  stream->WaitUntilIdle();
  return kOk;
}

// As the event was last recorded, not as it is when the stream gets there.
Code cuStreamWaitEvent(Stream stream, Event event, unsigned flags) {
  if (flags != 0) return kInvalidValue;
  return Run(stream, [done = event->done] { done->wait(false); });
}

Code cuEventCreate(Event* event, unsigned flags) {
  if (!HasContext()) return kInvalidContext;
  *event = new lockstep::collectives::cuda::EventObject();
  if ((flags & lockstep::collectives::cuda::kEventBlockingSync) == 0) return kInvalidValue;
  (*event)->timed = (flags & lockstep::collectives::cuda::kEventDisableTiming) == 0;
  return kOk;
}

Code cuEventDestroy_v2(Event event) {
  delete event;
  return kOk;
}

Code cuEventRecord(Event event, Stream stream) {
  {
    Process& process = TheProcess();
    const std::lock_guard lock(process.mutex);
    if (++process.events == Setting("FAKE_LOST_AT", 0)) process.lost = true;
    if (process.lost) return Lost();
  }
  event->done = std::make_shared<std::atomic<bool>>(false);
  event->at = std::make_shared<std::atomic<int64_t>>(0);
  return Run(stream, [done = event->done, at = event->at] {
    at->store(std::chrono::steady_clock::now().time_since_epoch().count());
    done->store(true);
    done->notify_all();
  });
}

Code cuEventElapsedTime(float* milliseconds, Event from, Event to) {
  if (!HasContext()) return kInvalidContext;
  if (!from->timed || !to->timed || !from->at || !to->at) return kInvalidHandle;
  if (!from->done->load() || !to->done->load()) return lockstep::collectives::cuda::kNotReady;
  const std::chrono::steady_clock::duration elapsed(to->at->load() - from->at->load());
  *milliseconds = std::chrono::duration<float, std::milli>(elapsed).count();
  return kOk;
}

Code cuEventQuery(Event event) {
  if (!HasContext()) return kInvalidContext;
  return event->done->load() ? kOk : lockstep::collectives::cuda::kNotReady;
}

Code cuEventSynchronize(Event event) {
  if (!HasContext()) return kInvalidContext;
  event->done->wait(false);
  return kOk;
}

Code cuMemAlloc_v2(Address* address, size_t bytes) {
  if (!HasContext()) return kInvalidContext;
  if (bytes == 0) return kInvalidValue;
  if (IsFull("memory")) return kOutOfMemory;
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  const int limit = Setting("FAKE_MEMORY", 0);
  if (limit > 0 && process.allocated + bytes > static_cast<size_t>(limit)) return kOutOfMemory;
  void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (memory == nullptr) return kOutOfMemory;
  std::memset(memory, 0xff, bytes);  // NaN, in every type: what nobody has written shows
  process.allocated += bytes;
  process.memory[reinterpret_cast<uintptr_t>(memory)] = bytes;
  *address = reinterpret_cast<uintptr_t>(memory);
  return kOk;
}

// All of the fake's memory is the host's as well.
Code cuMemAllocManaged(Address* address, size_t bytes, unsigned) {
  return cuMemAlloc_v2(address, bytes);
}

Code cuMemGetInfo_v2(size_t* free, size_t* total) {
  if (!HasContext()) return kInvalidContext;
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  const int limit = Setting("FAKE_MEMORY", 0);
  *total = limit > 0 ? static_cast<size_t>(limit) : size_t{1} << 40U;
  *free = *total - process.allocated;
  return kOk;
}

Code cuMemFree_v2(Address address) {
  {
    auto& streams = lockstep::collectives::cuda::Streams();
    std::unique_lock lock(streams.mutex);
    streams.changed.wait(lock, [&] { return streams.busy == 0; });
  }
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  const auto found = process.memory.find(address);
  if (found == process.memory.end()) return kInvalidValue;
  process.allocated -= found->second;
  process.memory.erase(found);
  std::free(Pointer(address));
  return kOk;
}

Code cuMemHostAlloc(void** data, size_t bytes, unsigned) {
  if (!HasContext()) return kInvalidContext;
  if (bytes == 0) return kInvalidValue;
  *data = std::malloc(bytes);
  return *data == nullptr ? kOutOfMemory : kOk;
}

Code cuMemFreeHost(void* data) {
  std::free(data);
  return kOk;
}

// The real one pins the pages, so they must be the caller's to write.
Code cuMemHostRegister_v2(void* data, size_t bytes, unsigned) {
  if (!HasContext()) return kInvalidContext;
  if (data == nullptr || bytes == 0) return kInvalidValue;
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  if (!process.registered.insert(data).second) return kAlreadyRegistered;
  return kOk;
}

Code cuMemHostUnregister(void* data) {
  if (!HasContext()) return kInvalidContext;
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  return process.registered.erase(data) == 1 ? kOk : kNotRegistered;
}

Code cuMemsetD8Async(Address to, unsigned char value, size_t bytes, Stream stream) {
  if (!IsDeviceMemory(Pointer(to), bytes)) return kInvalidValue;
  const std::chrono::milliseconds slow(Setting("FAKE_SLOW_SET_MS", 0));
  return Run(stream, [=] {
    std::this_thread::sleep_for(slow);
    std::memset(Pointer(to), value, bytes);
  });
}

Code cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, Stream stream) {
  if (!IsDeviceMemory(Pointer(to), bytes)) return kInvalidValue;
  return Run(stream, [=] { std::memcpy(Pointer(to), from, bytes); });
}

Code cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, Stream stream) {
  if (!IsDeviceMemory(Pointer(from), bytes)) return kInvalidValue;
  const std::chrono::milliseconds slow(bytes < 65536 ? 0 : Setting("FAKE_SLOW_COPY_MS", 0));
  return Run(stream, [=] {
    std::this_thread::sleep_for(slow);
    std::memcpy(to, Pointer(from), bytes);
  });
}

Code cuModuleLoadData(Module* module, const void* image) {
  if (!HasContext()) return kInvalidContext;
  if (const Code refused = Setting("FAKE_IMAGE", 0); refused != kOk) return refused;
  if (IsFull("module")) return kOutOfMemory;
  {
    Process& process = TheProcess();
    const std::lock_guard lock(process.mutex);
    const int most = Setting("FAKE_LOADS", 0);
    if (++process.loads > most && most > 0) return kOutOfMemory;
  }
  const auto* text = static_cast<const char*>(image);
  const bool ptx = std::strncmp(text, "//", 2) == 0;
  const bool fatbin = std::memcmp(text, "\x50\xed\x55\xba", 4) == 0;
  if (!ptx && !fatbin) return kInvalidImage;
  *module = new lockstep::collectives::cuda::ModuleObject{ptx ? text : ""};
  return kOk;
}

Code cuModuleUnload(Module module) {
  delete module;
  return kOk;
}

// Runs what the emulator has under this name; PTX must have it as well.
Code cuModuleGetFunction(Function* function, Module module, const char* name) {
  const auto* kernel = lockstep::emulator::Find(name);
  const std::string entry = ".entry " + std::string(name) + "(";
  if (kernel == nullptr ||
      (!module->image.empty() && module->image.find(entry) == std::string::npos))
    return kNotFound;
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  *function = &process.functions[name];
  (*function)->kernel = kernel;
  return kOk;
}

Code cuLaunchKernel(Function function, unsigned grid_x, unsigned grid_y, unsigned, unsigned block_x,
                    unsigned, unsigned, unsigned shared_bytes, Stream stream, void** parameters,
                    void**) {
  // Of every GPU, for a kernel that asks for no more shared memory.
  if (grid_x == 0 || grid_y == 0 || grid_x > INT32_MAX || grid_y > 65535 || block_x > 1024 ||
      shared_bytes > 48 * 1024)
    return kInvalidValue;
  // The one parameter is read at the launch, not when the kernel runs.
  const auto* from = static_cast<const char*>(parameters[0]);
  std::vector<char> arguments(from, from + function->kernel->bytes);
  const lockstep::trainer::gpu::LaunchShape shape{grid_x, grid_y, block_x, shared_bytes};
  return Run(stream, [kernel = function->kernel, arguments = std::move(arguments), shape] {
    const auto seed = static_cast<unsigned>(Setting("FAKE_SCHEDULE", 0));
    const std::string wrong =
        lockstep::emulator::Run(*kernel, arguments.data(), shape, {.seed = seed});
    if (wrong.empty()) return;
    std::fprintf(stderr, "%s\n", wrong.c_str());
    std::abort();
  });
}

}  // extern "C"

namespace lockstep::fake_nccl {
namespace {

// The types are those that nccl_abi_test.cc compares with the real header's.
[[maybe_unused]] constexpr collectives::cuda::Api kExported{
    .init = cuInit,
    .driver_get_version = cuDriverGetVersion,
    .get_error_name = cuGetErrorName,
    .get_error_string = cuGetErrorString,
    .device_get_count = cuDeviceGetCount,
    .device_get = cuDeviceGet,
    .device_get_name = cuDeviceGetName,
    .device_get_attribute = cuDeviceGetAttribute,
    .primary_context_set_flags = cuDevicePrimaryCtxSetFlags_v2,
    .primary_context_retain = cuDevicePrimaryCtxRetain,
    .primary_context_release = cuDevicePrimaryCtxRelease_v2,
    .context_set_current = cuCtxSetCurrent,
    .stream_priorities = cuCtxGetStreamPriorityRange,
    .stream_create = cuStreamCreateWithPriority,
    .stream_destroy = cuStreamDestroy_v2,
    .stream_synchronize = cuStreamSynchronize,
    .stream_wait_event = cuStreamWaitEvent,
    .event_create = cuEventCreate,
    .event_destroy = cuEventDestroy_v2,
    .event_record = cuEventRecord,
    .event_query = cuEventQuery,
    .event_synchronize = cuEventSynchronize,
    .event_elapsed_time = cuEventElapsedTime,
    .memory_info = cuMemGetInfo_v2,
    .memory_allocate = cuMemAlloc_v2,
    .memory_free = cuMemFree_v2,
    .host_allocate = cuMemHostAlloc,
    .host_free = cuMemFreeHost,
    .host_register = cuMemHostRegister_v2,
    .host_unregister = cuMemHostUnregister,
    .memory_set = cuMemsetD8Async,
    .copy_to_device = cuMemcpyHtoDAsync_v2,
    .copy_to_host = cuMemcpyDtoHAsync_v2,
    .module_load = cuModuleLoadData,
    .module_unload = cuModuleUnload,
    .module_get_function = cuModuleGetFunction,
    .launch_kernel = cuLaunchKernel};

}  // namespace
}  // namespace lockstep::fake_nccl
