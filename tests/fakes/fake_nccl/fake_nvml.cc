// A stand-in for NVML: the fake driver's GPUs, whose values are what FAKE_NVML says of
// all, or with ":3" behind it of GPU 3 alone. (A job hands no LOCKSTEP_* down to its ranks.)
//
// "": it tells everything. "bare": a GPU that supports none of it. "lies": shares above 1. "xid":
// the critical Xids of FAKE_XIDS ("31,79" by default) have happened. "lost": nvmlInit fails. "hot":
// heat has its clock down. "ecc": its memory has had 2 errors that were not corrected. "remap":
// rows wait to be remapped.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "worker/trainer/cuda/libraries/nvml_api.h"

namespace {

using namespace lockstep::trainer::nvml;  // NOLINT: its own names

constexpr int kFirstBus = 0xf0;  // fake_cuda.cc's
constexpr int kGpus = 16;

int told = 0;                  // Xids
std::array<char, kGpus> gpus;  // whose addresses are handles

unsigned IndexOf(Device device) {
  return static_cast<unsigned>(reinterpret_cast<char*>(device) - gpus.data());
}

std::string_view Mood() {
  const char* mood = std::getenv("FAKE_NVML");
  return mood == nullptr ? "" : mood;
}

std::string_view Mood(Device device) {
  const std::string_view mood = Mood();
  const size_t colon = mood.find(':');
  if (colon == std::string_view::npos) return mood;
  return mood.substr(colon + 1) == std::to_string(IndexOf(device)) ? mood.substr(0, colon) : "";
}

template <typename Value>
Code Tell(Device device, Value* to, Value value) {
  if (Mood(device) == "bare") return Code::kNotSupported;
  *to = value;
  return Code::kSuccess;
}

}  // namespace

extern "C" {

Code nvmlInit_v2() { return Mood() == "lost" ? static_cast<Code>(9) : Code::kSuccess; }

const char* nvmlErrorString(Code code) {
  return code == static_cast<Code>(9) ? "Driver Not Loaded" : "Not Found";
}

Code nvmlDeviceGetHandleByPciBusId_v2(const char* address, Device* device) {
  unsigned bus = 0;
  char end = 0;
  if (std::sscanf(address, "0000:%2x:00.0%c", &bus, &end) != 1) return static_cast<Code>(6);
  if (bus < kFirstBus || bus >= kFirstBus + kGpus) return static_cast<Code>(6);
  *device = reinterpret_cast<Device>(&gpus[bus - kFirstBus]);
  return Code::kSuccess;
}
Code nvmlDeviceGetIndex(Device device, unsigned* to) { return Tell(device, to, IndexOf(device)); }

Code nvmlDeviceGetUtilizationRates(Device device, Utilization* to) {
  return Tell(device, to, {Mood(device) == "lies" ? 101U : 87U, 40});
}
Code nvmlDeviceGetMemoryInfo(Device device, Memory* to) {
  return Tell(device, to,
              {80'000'000'000, 20'000'000'000, Mood(device) == "lies" ? ~0ULL : 60'000'000'000});
}
Code nvmlDeviceGetPowerUsage(Device device, unsigned* to) { return Tell(device, to, 655'250U); }
Code nvmlDeviceGetTemperature(Device device, int sensor, unsigned* to) {
  const unsigned celsius = Mood(device) == "hot" ? 92U : 71U;
  return Tell(device, to, sensor == kTemperatureGpu ? celsius : 0U);
}
Code nvmlDeviceGetClockInfo(Device device, int kind, unsigned* to) {
  const unsigned megahertz = Mood(device) == "hot" ? 1200U : 1755U;
  return Tell(device, to, kind == kClockSm ? megahertz : 0U);
}
Code nvmlDeviceGetMaxClockInfo(Device device, int kind, unsigned* to) {
  return Tell(device, to, kind == kClockSm ? 1980U : 0U);
}
Code nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long* to) {
  return Tell(device, to, Mood(device) == "hot" ? kThermalSlowdown : kPowerCap | 1ULL);
}
Code nvmlDeviceGetTotalEccErrors(Device device, int kind, int counter, unsigned long long* to) {
  return Tell(device, to,
              counter != kVolatile ? 9ULL
              : kind == kCorrected ? 12ULL
                                   : (Mood(device) == "ecc" ? 2ULL : 0ULL));
}
Code nvmlDeviceGetRemappedRows(Device device, unsigned* corrected, unsigned* uncorrected,
                               unsigned* pending, unsigned* failed) {
  *corrected = 0;
  *uncorrected = Mood(device) == "remap" ? 1 : 0;
  *failed = 0;
  return Tell(device, pending, *uncorrected);
}
// Of GPUs before Ampere.
Code nvmlDeviceGetRetiredPagesPendingStatus(Device, int*) { return Code::kNotSupported; }

Code nvmlDeviceGetFieldValues(Device device, int count, FieldValue* values) {
  for (int i = 0; i < count; ++i) {
    const bool sent = values[i].field == kNvlinkSent && values[i].scope == kAllLinks;
    values[i].code = Mood(device) == "bare" ? Code::kNotSupported : Code::kSuccess;
    values[i].type = sent ? kUnsignedLongLong : kUnsigned;
    if (sent) values[i].value.u64 = 1ULL << 40U;
    if (!sent) values[i].value.u32 = 3;
  }
  return Code::kSuccess;
}

Code nvmlEventSetCreate(EventSet* set) {
  *set = reinterpret_cast<EventSet>(&told);
  return Code::kSuccess;
}
Code nvmlDeviceRegisterEvents(Device device, unsigned long long types, EventSet) {
  return Mood(device) == "bare" || types != kXidEvent ? Code::kNotSupported : Code::kSuccess;
}
Code nvmlEventSetWait_v2(EventSet, EventData* event, unsigned) {
  const char* setting = std::getenv("FAKE_XIDS");
  std::string_view xids = setting == nullptr ? "31,79" : setting;
  for (int i = 0; i < told && !xids.empty(); ++i) {
    xids.remove_prefix(std::min(xids.find(','), xids.size() - 1) + 1);
  }
  if (Mood() != "xid" || xids.empty()) return Code::kTimeout;
  ++told;
  event->type = kXidEvent;
  event->data = std::strtoull(std::string(xids).c_str(), nullptr, 10);
  return Code::kSuccess;
}

}  // extern "C"
