#include "worker/trainer/run/gpu_figures.h"

#include <cstdio>
#include <utility>

namespace lockstep::trainer {

GpuFigures::GpuFigures(const collectives::CudaDevice& device, core::Precision precision) {
  // Tables tell of products of bf16 alone.
  if (precision == core::Precision::kBf16) peak_flops_ = PeakFlops(device.name()).value_or(0);
  Result<std::string> address = device.PciAddress();
  if (!address.ok()) {
    why_not_ = address.error().message;
    return;
  }
  address_ = std::move(*address);
  Result<GpuMonitor> monitor = GpuMonitor::Open(address_);
  if (monitor.ok()) {
    monitor_ = std::move(*monitor);
  } else {
    why_not_ = monitor.error().message;
  }
}

void GpuFigures::AddTo(Numbers& numbers, Time now) {
  if (!monitor_ || now < due_) return;
  due_ = now + kInterval;
  for (const auto& [name, value] : monitor_->Read()) {
    numbers.emplace_back(name, value);
    if (name != "gpu_xid" || value == xid_) continue;
    xid_ = value;
    std::fprintf(stderr, "GPU %s: Xid %.0f\n", address_.c_str(), value);
  }
}

}  // namespace lockstep::trainer
