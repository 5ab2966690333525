// What is used of NVML, NVIDIA's management library, as its header declares it; written down here,
// for a machine that builds this need not have that.
// tests/worker/trainer/cuda/libraries/nvml_abi_test.cc compares both.
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_LIBRARIES_NVML_API_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_LIBRARIES_NVML_API_H_

#include <cstdint>

namespace lockstep::trainer::nvml {

enum class Code : int { kSuccess = 0, kNotSupported = 3, kTimeout = 10 };
using Device = struct DeviceOf*;
using EventSet = struct EventSetOf*;

struct Utilization {
  unsigned gpu;  // percent
  unsigned memory;
};
struct Memory {  // bytes
  unsigned long long total, free, used;
};
struct EventData {
  Device device;
  unsigned long long type;
  unsigned long long data;  // for an Xid its number
  unsigned gpu_instance, compute_instance;
};
struct FieldValue {
  unsigned field;
  unsigned scope;
  long long timestamp, latency;
  int type;  // of `value`: 1 unsigned, 3 unsigned long long
  Code code;
  union {
    unsigned u32;
    unsigned long long u64;
    double f64;
  } value;
};

inline constexpr int kClockSm = 1;
inline constexpr int kTemperatureGpu = 0;
inline constexpr int kCorrected = 0;  // kinds of memory errors
inline constexpr int kUncorrected = 1;
inline constexpr int kVolatile = 0;  // counted since the driver was loaded
inline constexpr int kUnsigned = 1;  // types of values
inline constexpr int kUnsignedLongLong = 3;
inline constexpr unsigned long long kXidEvent = 8;
inline constexpr unsigned kNvlinkSent = 138;  // KiB of data
inline constexpr unsigned kNvlinkReceived = 139;
inline constexpr unsigned kAllLinks = ~0U;
// Why clocks are lower than they could be, bits.
inline constexpr unsigned long long kPowerCap = 0x4;
inline constexpr unsigned long long kHardwareSlowdown = 0x8;
inline constexpr unsigned long long kThermalSlowdown = 0x20;
inline constexpr unsigned long long kHardwareThermalSlowdown = 0x40;
inline constexpr unsigned long long kPowerBrake = 0x80;

// Null: this library has none.
struct Api {
  Code (*init)() = nullptr;
  const char* (*error_string)(Code) = nullptr;
  Code (*by_pci)(const char*, Device*) = nullptr;
  Code (*utilization)(Device, Utilization*) = nullptr;
  Code (*memory)(Device, Memory*) = nullptr;
  Code (*power)(Device, unsigned* milliwatts) = nullptr;
  Code (*temperature)(Device, int sensor, unsigned* celsius) = nullptr;
  Code (*clock)(Device, int kind, unsigned* megahertz) = nullptr;
  Code (*most_clock)(Device, int kind, unsigned* megahertz) = nullptr;
  Code (*index)(Device, unsigned*) = nullptr;
  Code (*slowdowns)(Device, unsigned long long* bits) = nullptr;
  Code (*ecc_errors)(Device, int kind, int counter, unsigned long long*) = nullptr;
  Code (*remapped_rows)(Device, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                        unsigned* failed) = nullptr;
  Code (*retired_pages_pending)(Device, int* pending) = nullptr;
  Code (*fields)(Device, int count, FieldValue*) = nullptr;
  Code (*make_events)(EventSet*) = nullptr;
  Code (*subscribe)(Device, unsigned long long types, EventSet) = nullptr;
  Code (*next_event)(EventSet, EventData*, unsigned milliseconds) = nullptr;
};

}  // namespace lockstep::trainer::nvml

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_LIBRARIES_NVML_API_H_
