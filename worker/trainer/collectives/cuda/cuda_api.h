// The part of the CUDA driver API (libcuda.so.1) that Lockstep uses, declared here so that it
// builds without CUDA and runs without a GPU.
// tests/worker/trainer/collectives/nccl/nccl_abi_test.cc compares it with the real cuda.h where
// `tools/deps --cuda` has been run. Names lack the prefix "cu" and have this project's case;
// meanings are those of NVIDIA's "CUDA Driver API" manual.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_CUDA_CUDA_API_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_CUDA_CUDA_API_H_

#include <cstddef>

namespace lockstep::collectives::cuda {

struct ContextObject;
struct StreamObject;
struct EventObject;
struct ModuleObject;
struct FunctionObject;
using Context = ContextObject*;
using Stream = StreamObject*;
using Event = EventObject*;
using Module = ModuleObject*;
using Function = FunctionObject*;
using Device = int;
using Address = unsigned long long;  // CUdeviceptr

// CUresult; every function returns one.
using Code = int;
inline constexpr Code kSuccess = 0;
inline constexpr Code kOutOfMemory = 2;
inline constexpr Code kStubLibrary = 34;  // the toolkit's libcuda.so, for linking alone
inline constexpr Code kNewerDriverWanted = 36;
inline constexpr Code kDeviceUnavailable = 46;
inline constexpr Code kNoDevice = 100;
inline constexpr Code kInvalidDevice = 101;
inline constexpr Code kEccUncorrectable = 214;
inline constexpr Code kNvlinkUncorrectable = 220;
inline constexpr Code kContained = 226;  // the GPU has kept a hardware fault to this process
inline constexpr Code kNotReady = 600;
inline constexpr Code kPrimaryContextActive = 708;
inline constexpr Code kSystemNotReady = 802;
inline constexpr Code kSystemDriverMismatch = 803;
inline constexpr Code kCompatNotSupported = 804;  // the image's compatibility driver, on this GPU
inline constexpr Code kUnknown = 999;             // what is left of a GPU that fell off its bus

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kScheduleBlockingSync = 4;  // CUctx_flags
inline constexpr unsigned kEventBlockingSync = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr int kPciBus = 33;  // CUdevice_attribute
inline constexpr int kPciDevice = 34;
inline constexpr int kPciDomain = 50;
inline constexpr int kComputeCapabilityMajor = 75;
inline constexpr int kComputeCapabilityMinor = 76;

// What the driver exports, by the names in cuda_driver.cc.
struct Api {
  Code (*init)(unsigned flags) = nullptr;
  Code (*driver_get_version)(int* version) = nullptr;
  Code (*get_error_name)(Code code, const char** name) = nullptr;
  Code (*get_error_string)(Code code, const char** text) = nullptr;

  Code (*device_get_count)(int* count) = nullptr;
  Code (*device_get)(Device* device, int index) = nullptr;
  Code (*device_get_name)(char* name, int length, Device device) = nullptr;
  Code (*device_get_attribute)(int* value, int attribute, Device device) = nullptr;
  Code (*primary_context_set_flags)(Device device, unsigned flags) = nullptr;
  Code (*primary_context_retain)(Context* context, Device device) = nullptr;
  Code (*primary_context_release)(Device device) = nullptr;
  Code (*context_set_current)(Context context) = nullptr;

  Code (*stream_priorities)(int* lowest, int* highest) = nullptr;
  Code (*stream_create)(Stream* stream, unsigned flags, int priority) = nullptr;
  Code (*stream_destroy)(Stream stream) = nullptr;
  Code (*stream_synchronize)(Stream stream) = nullptr;
  Code (*stream_wait_event)(Stream stream, Event event, unsigned flags) = nullptr;
  Code (*event_create)(Event* event, unsigned flags) = nullptr;
  Code (*event_destroy)(Event event) = nullptr;
  Code (*event_record)(Event event, Stream stream) = nullptr;
  Code (*event_query)(Event event) = nullptr;
  Code (*event_synchronize)(Event event) = nullptr;
  Code (*event_elapsed_time)(float* milliseconds, Event from, Event to) = nullptr;

  Code (*memory_info)(size_t* free, size_t* total) = nullptr;
  Code (*memory_allocate)(Address* address, size_t bytes) = nullptr;
  Code (*memory_free)(Address address) = nullptr;
  Code (*host_allocate)(void** data, size_t bytes, unsigned flags) = nullptr;
  Code (*host_free)(void* data) = nullptr;
  Code (*host_register)(void* data, size_t bytes, unsigned flags) = nullptr;
  Code (*host_unregister)(void* data) = nullptr;
  Code (*memory_set)(Address to, unsigned char value, size_t bytes, Stream stream) = nullptr;
  Code (*copy_to_device)(Address to, const void* from, size_t bytes, Stream stream) = nullptr;
  Code (*copy_to_host)(void* to, Address from, size_t bytes, Stream stream) = nullptr;

  Code (*module_load)(Module* module, const void* image) = nullptr;
  Code (*module_unload)(Module module) = nullptr;
  Code (*module_get_function)(Function* function, Module module, const char* name) = nullptr;
  Code (*launch_kernel)(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        Stream stream, void** parameters, void** extra) = nullptr;
};

}  // namespace lockstep::collectives::cuda

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_CUDA_CUDA_API_H_
