#include "worker/trainer/cuda/libraries/gpu_monitor.h"

#include <array>

#include "core/preflight/gpu_clock.h"
#include "worker/trainer/collectives/cuda/cuda_library.h"

namespace lockstep::trainer {
namespace {

using collectives::SharedLibrary;
using nvml::Code;

constexpr int kMostEvents = 64;  // taken at a reading
constexpr double kKibibyte = 1024;

struct Peak {
  std::string_view name;  // what the GPU's own begins with, the longer first
  double teraflops;
};
// NVIDIA's data sheets.
constexpr std::array kPeaks = {
    Peak{"NVIDIA B200", 2250}, Peak{"NVIDIA H200 NVL", 835}, Peak{"NVIDIA H200", 989},
    Peak{"NVIDIA GH200", 989}, Peak{"NVIDIA H100 NVL", 835}, Peak{"NVIDIA H100 PCIe", 756},
    Peak{"NVIDIA H100", 989},  Peak{"NVIDIA A100", 312},     Peak{"NVIDIA A800", 312},
    Peak{"NVIDIA L40S", 362},  Peak{"NVIDIA L40", 181},      Peak{"NVIDIA L4", 121},
    Peak{"NVIDIA A10G", 70},   Peak{"NVIDIA A10", 125},
};

// Of a library that has it or not.
template <typename Function>
void BindIfThere(const SharedLibrary& library, const char* symbol, Function** function) {
  if (!library.Bind(symbol, function).ok()) *function = nullptr;
}

Result<nvml::Api> Bind(const SharedLibrary& library) {
  nvml::Api api;
  collectives::Binder bind(library);
  bind("nvmlInit_v2", &api.init)("nvmlErrorString", &api.error_string);
  bind("nvmlDeviceGetHandleByPciBusId_v2", &api.by_pci);
  if (!bind.status().ok()) return bind.status().error();
  BindIfThere(library, "nvmlDeviceGetUtilizationRates", &api.utilization);
  BindIfThere(library, "nvmlDeviceGetMemoryInfo", &api.memory);
  BindIfThere(library, "nvmlDeviceGetPowerUsage", &api.power);
  BindIfThere(library, "nvmlDeviceGetTemperature", &api.temperature);
  BindIfThere(library, "nvmlDeviceGetClockInfo", &api.clock);
  BindIfThere(library, "nvmlDeviceGetMaxClockInfo", &api.most_clock);
  BindIfThere(library, "nvmlDeviceGetIndex", &api.index);
  BindIfThere(library, "nvmlDeviceGetCurrentClocksEventReasons", &api.slowdowns);
  if (api.slowdowns == nullptr) {  // its name until CUDA 12.2
    BindIfThere(library, "nvmlDeviceGetCurrentClocksThrottleReasons", &api.slowdowns);
  }
  BindIfThere(library, "nvmlDeviceGetTotalEccErrors", &api.ecc_errors);
  BindIfThere(library, "nvmlDeviceGetRemappedRows", &api.remapped_rows);
  BindIfThere(library, "nvmlDeviceGetRetiredPagesPendingStatus", &api.retired_pages_pending);
  BindIfThere(library, "nvmlDeviceGetFieldValues", &api.fields);
  BindIfThere(library, "nvmlEventSetCreate", &api.make_events);
  BindIfThere(library, "nvmlDeviceRegisterEvents", &api.subscribe);
  BindIfThere(library, "nvmlEventSetWait_v2", &api.next_event);
  return api;
}

// What `get` wrote; nullopt where it is missing or failed.
template <typename Value, typename Get, typename... Which>
std::optional<Value> Ask(Get* get, nvml::Device device, Which... which) {
  Value value{};
  if (get == nullptr || get(device, which..., &value) != Code::kSuccess) return std::nullopt;
  return value;
}

class Reading {
 public:
  void Add(std::string_view name, std::optional<double> value) {
    if (value) numbers_.emplace_back(name, *value);
  }
  // `value` x `unit`.
  template <typename Value>
  void Add(std::string_view name, const std::optional<Value>& value, double unit) {
    if (value) Add(name, static_cast<double>(*value) * unit);
  }
  std::vector<std::pair<std::string_view, double>> Take() { return std::move(numbers_); }

 private:
  std::vector<std::pair<std::string_view, double>> numbers_;
};

void AddSlowdowns(const nvml::Api& api, nvml::Device device, Reading& reading) {
  const auto bits = Ask<unsigned long long>(api.slowdowns, device);
  if (!bits) return;
  const uint32_t slowed = SlowdownOf(*bits);
  const auto is = [slowed](uint32_t by) { return (slowed & by) != 0 ? 1.0 : 0.0; };
  reading.Add("gpu_slowed_by_power", is(core::kSlowedByPower));
  reading.Add("gpu_slowed_by_heat", is(core::kSlowedByHeat));
  reading.Add("gpu_slowed_by_hardware", is(core::kSlowedByHardware));
}

void AddLinks(const nvml::Api& api, nvml::Device device, Reading& reading) {
  std::array<nvml::FieldValue, 2> values{};
  values[0].field = nvml::kNvlinkSent;
  values[1].field = nvml::kNvlinkReceived;
  for (nvml::FieldValue& value : values) value.scope = nvml::kAllLinks;
  if (api.fields == nullptr ||
      api.fields(device, static_cast<int>(values.size()), values.data()) != Code::kSuccess) {
    return;
  }
  for (const nvml::FieldValue& value : values) {
    if (value.code != Code::kSuccess) continue;
    std::optional<unsigned long long> kibibytes;
    if (value.type == nvml::kUnsigned) kibibytes = value.value.u32;
    if (value.type == nvml::kUnsignedLongLong) kibibytes = value.value.u64;
    reading.Add(
        value.field == nvml::kNvlinkSent ? "gpu_nvlink_sent_bytes" : "gpu_nvlink_received_bytes",
        kibibytes, kKibibyte);
  }
}

}  // namespace

Result<GpuMonitor> GpuMonitor::Open(const std::string& pci_address) {
  const Result<SharedLibrary> library =
      SharedLibrary::Open("LOCKSTEP_NVML_LIBRARY", "libnvidia-ml.so.1");
  if (!library.ok()) return library.error();
  const Result<nvml::Api> api = Bind(*library);
  if (!api.ok()) return api.error();
  const auto failed = [&](const char* what, Code code) {
    return Error::Internal(std::string(what) + ": " + api->error_string(code));
  };
  if (const Code code = api->init(); code != Code::kSuccess) return failed("nvmlInit", code);
  nvml::Device device = nullptr;
  const Code found = api->by_pci(pci_address.c_str(), &device);
  if (found != Code::kSuccess) return failed(("GPU " + pci_address).c_str(), found);
  GpuMonitor monitor(*api, device);
  monitor.Subscribe();
  return monitor;
}

void GpuMonitor::Subscribe() {
  if (api_.make_events == nullptr || api_.subscribe == nullptr || api_.next_event == nullptr) {
    return;
  }
  nvml::EventSet events = nullptr;
  if (api_.make_events(&events) != Code::kSuccess) return;
  if (api_.subscribe(device_, nvml::kXidEvent, events) == Code::kSuccess) events_ = events;
}

std::vector<std::pair<std::string_view, double>> GpuMonitor::Read() {
  Reading reading;
  const auto used = Ask<nvml::Utilization>(api_.utilization, device_);
  if (used && used->gpu <= 100) reading.Add("gpu_utilization", used->gpu / 100.0);
  const auto memory = Ask<nvml::Memory>(api_.memory, device_);
  if (memory && memory->used <= memory->total) {
    reading.Add("gpu_memory_bytes", static_cast<double>(memory->used));
  }
  reading.Add("gpu_power_watts", Ask<unsigned>(api_.power, device_), 1e-3);
  reading.Add("gpu_temperature_celsius",
              Ask<unsigned>(api_.temperature, device_, nvml::kTemperatureGpu), 1);
  reading.Add("gpu_index", Ask<unsigned>(api_.index, device_), 1);
  reading.Add("gpu_sm_clock_hertz", Ask<unsigned>(api_.clock, device_, nvml::kClockSm), 1e6);
  reading.Add("gpu_max_sm_clock_hertz", Ask<unsigned>(api_.most_clock, device_, nvml::kClockSm),
              1e6);
  AddSlowdowns(api_, device_, reading);
  const auto errors = [&](int kind) {
    return Ask<unsigned long long>(api_.ecc_errors, device_, kind, nvml::kVolatile);
  };
  reading.Add("gpu_ecc_corrected", errors(nvml::kCorrected), 1);
  reading.Add("gpu_ecc_uncorrected", errors(nvml::kUncorrected), 1);
  AddLinks(api_, device_, reading);
  reading.Add("gpu_xid", xid_);
  return reading.Take();
}

GpuMonitor::Health GpuMonitor::ReadHealth() const {
  Health health;
  health.index = Ask<unsigned>(api_.index, device_);
  health.clock = Ask<unsigned>(api_.clock, device_, nvml::kClockSm);
  health.most_clock = Ask<unsigned>(api_.most_clock, device_, nvml::kClockSm);
  health.slowdowns = Ask<unsigned long long>(api_.slowdowns, device_).value_or(0);
  health.uncorrected =
      Ask<unsigned long long>(api_.ecc_errors, device_, nvml::kUncorrected, nvml::kVolatile)
          .value_or(0);
  unsigned corrected = 0;
  unsigned uncorrected = 0;
  unsigned pending = 0;
  unsigned failed = 0;
  if (api_.remapped_rows != nullptr &&
      api_.remapped_rows(device_, &corrected, &uncorrected, &pending, &failed) == Code::kSuccess) {
    health.remap_pending = pending != 0;
    health.remap_failed = failed != 0;
  }
  health.retirement_pending = Ask<int>(api_.retired_pages_pending, device_).value_or(0) != 0;
  return health;
}

std::vector<unsigned long long> GpuMonitor::NewXids() {
  std::vector<unsigned long long> xids;
  for (int i = 0; events_ != nullptr && i < kMostEvents; ++i) {
    nvml::EventData event{};
    if (api_.next_event(events_, &event, 0) != Code::kSuccess) break;
    if (event.type == nvml::kXidEvent) xids.push_back(event.data);
  }
  if (!xids.empty()) xid_ = static_cast<double>(xids.back());
  return xids;
}

std::string_view FatalXid(unsigned long long xid) {
  switch (xid) {
    case 48:
      return "an error of its memory that ECC cannot correct";
    case 64:
      return "a bad row of its memory cannot be remapped";
    case 74:
      return "an error of NVLink";
    case 79:
      return "it has fallen off the bus";
    case 94:
      return "a contained error of its memory";
    case 95:
      return "an uncontained error of its memory";
    case 119:
    case 120:
      return "its system processor (GSP) does not answer";
    case 140:
      return "an error of its memory that it has not recovered from";
    default:
      return "";
  }
}

uint32_t SlowdownOf(unsigned long long bits) {
  uint32_t slowed = 0;
  if ((bits & (nvml::kPowerCap | nvml::kPowerBrake)) != 0) slowed |= core::kSlowedByPower;
  if ((bits & (nvml::kThermalSlowdown | nvml::kHardwareThermalSlowdown)) != 0) {
    slowed |= core::kSlowedByHeat;
  }
  if ((bits & nvml::kHardwareSlowdown) != 0) slowed |= core::kSlowedByHardware;
  return slowed;
}

std::optional<double> PeakFlops(std::string_view name) {
  // "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
  if (name.find(" MIG ") != std::string_view::npos) return std::nullopt;
  for (const Peak& peak : kPeaks) {
    if (name.starts_with(peak.name)) return peak.teraflops * 1e12;
  }
  return std::nullopt;
}

}  // namespace lockstep::trainer
