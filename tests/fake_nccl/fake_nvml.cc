// A stand-in for NVML: one GPU, whose values are what LOCKSTEP_FAKE_NVML says.
//
// "": it tells everything. "bare": a GPU that supports none of it. "lies": shares above 1. "xid":
// two critical Xids have happened, 31 and 79. "lost": nvmlInit fails.
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "worker/trainer/cuda/nvml_api.h"

namespace {

using namespace lockstep::trainer::nvml;  // NOLINT: its own names

int told = 0;  // Xids

std::string_view Mood() {
  const char* mood = std::getenv("LOCKSTEP_FAKE_NVML");
  return mood == nullptr ? "" : mood;
}

template <typename Value>
Code Tell(Value* to, Value value) {
  if (Mood() == "bare") return Code::kNotSupported;
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
  if (std::strcmp(address, "0000:f0:00.0") != 0) return static_cast<Code>(6);
  *device = reinterpret_cast<Device>(&told);
  return Code::kSuccess;
}

Code nvmlDeviceGetUtilizationRates(Device, Utilization* to) {
  return Tell(to, {Mood() == "lies" ? 101U : 87U, 40});
}
Code nvmlDeviceGetMemoryInfo(Device, Memory* to) {
  return Tell(to, {80'000'000'000, 20'000'000'000, Mood() == "lies" ? ~0ULL : 60'000'000'000});
}
Code nvmlDeviceGetPowerUsage(Device, unsigned* to) { return Tell(to, 655'250U); }
Code nvmlDeviceGetTemperature(Device, int sensor, unsigned* to) {
  return Tell(to, sensor == kTemperatureGpu ? 71U : 0U);
}
Code nvmlDeviceGetClockInfo(Device, int kind, unsigned* to) {
  return Tell(to, kind == kClockSm ? 1755U : 0U);
}
Code nvmlDeviceGetCurrentClocksThrottleReasons(Device, unsigned long long* to) {
  return Tell(to, kPowerCap | 1ULL);
}
Code nvmlDeviceGetTotalEccErrors(Device, int kind, int counter, unsigned long long* to) {
  return Tell(to, counter != kVolatile ? 9ULL : kind == kCorrected ? 12ULL : 1ULL);
}

Code nvmlDeviceGetFieldValues(Device, int count, FieldValue* values) {
  for (int i = 0; i < count; ++i) {
    const bool sent = values[i].field == kNvlinkSent && values[i].scope == kAllLinks;
    values[i].code = Mood() == "bare" ? Code::kNotSupported : Code::kSuccess;
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
Code nvmlDeviceRegisterEvents(Device, unsigned long long types, EventSet) {
  return Mood() == "bare" || types != kXidEvent ? Code::kNotSupported : Code::kSuccess;
}
Code nvmlEventSetWait_v2(EventSet, EventData* event, unsigned) {
  if (Mood() != "xid" || told == 2) return Code::kTimeout;
  event->type = kXidEvent;
  event->data = told++ == 0 ? 31 : 79;
  return Code::kSuccess;
}

}  // extern "C"
