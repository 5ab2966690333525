// GpuMonitor: what NVML, NVIDIA's management library, tells of a rank's GPU while it trains.
//
//   Result<GpuMonitor> monitor = GpuMonitor::Open("0000:17:00.0");
//   for (const auto& [name, value] : monitor->Read()) ...
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_LIBRARIES_GPU_MONITOR_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_LIBRARIES_GPU_MONITOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "worker/trainer/cuda/libraries/nvml_api.h"

namespace lockstep::trainer {

class GpuMonitor {
 public:
  // The GPU at this PCI address, by libnvidia-ml.so.1 or the file that LOCKSTEP_NVML_LIBRARY names.
  // kNotFound: the library, its functions or the GPU are missing; kInternal: NVML's own words.
  static Result<GpuMonitor> Open(const std::string& pci_address);

  // Numbers by name, in SI units and shares of 1. What this GPU or this NVML does not tell, or what
  // makes no sense, is left out:
  //   gpu_utilization           of the last moments, in which any kernel ran
  //   gpu_memory_bytes          in use, by all processes and the driver
  //   gpu_power_watts, gpu_temperature_celsius, gpu_sm_clock_hertz
  //   gpu_index                 NVML's number of it, as nvidia-smi shows it
  //   gpu_max_sm_clock_hertz    that its clock can reach
  //   gpu_slowed_by_power, gpu_slowed_by_heat, gpu_slowed_by_hardware   1 while it is, else 0
  //   gpu_ecc_corrected, gpu_ecc_uncorrected   errors of its memory since the driver was loaded
  //   gpu_nvlink_sent_bytes, gpu_nvlink_received_bytes   by all its links
  //   gpu_xid                   the last that NewXids() told; none yet: left out
  // It takes about a millisecond, on the CPU.
  std::vector<std::pair<std::string_view, double>> Read();
  // What preflight asks of a GPU before it is used. What this NVML does not tell is 0, false or not
  // there.
  struct Health {
    std::optional<unsigned> index;
    std::optional<unsigned> clock, most_clock;  // MHz, of its multiprocessors
    unsigned long long slowdowns = 0;           // bits of nvml_api.h
    unsigned long long uncorrected = 0;         // errors of its memory since the driver was loaded
    bool remap_pending = false;                 // rows are replaced at its next reset
    bool remap_failed = false;                  // no spare rows are left for one of them
    bool retirement_pending = false;            // GPUs before Ampere: pages, at the next reset
  };
  Health ReadHealth() const;
  // The numbers of critical Xids since Open or the last call, in their order.
  std::vector<unsigned long long> NewXids();

 private:
  GpuMonitor(const nvml::Api& api, nvml::Device device) : api_(api), device_(device) {}
  void Subscribe();

  nvml::Api api_;
  nvml::Device device_;
  nvml::EventSet events_ = nullptr;  // null: Xids are not told
  std::optional<double> xid_;
};

// What a critical Xid after which the GPU or its machine must not be used says, by NVIDIA's "Xid
// Errors"; empty: it may be the program's, or is over.
std::string_view FatalXid(unsigned long long xid);

// NVML's bits, as core::GpuSlowdown has them.
uint32_t SlowdownOf(unsigned long long bits);

// The FLOP/s of products of bf16, summed in fp32 and without sparsity, that NVIDIA publishes for
// the GPU that calls itself `name`. Nullopt: it stands in no table here, or is a MIG instance, a
// part of one.
std::optional<double> PeakFlops(std::string_view name);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_LIBRARIES_GPU_MONITOR_H_
