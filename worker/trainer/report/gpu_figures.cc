#include "worker/trainer/report/gpu_figures.h"

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
    monitor_ = *monitor;
  } else {
    why_not_ = monitor.error().message;
  }
}

void GpuFigures::AddTo(Numbers& numbers, Time now) {
  if (!monitor_ || now < due_) return;
  due_ = now + kInterval;
  const std::lock_guard lock(asking_);
  SayNewXids();
  for (const auto& [name, value] : monitor_->Read()) numbers.emplace_back(name, value);
}

void GpuFigures::SayXids() {
  if (!monitor_) return;
  const std::unique_lock lock(asking_, std::try_to_lock);
  if (lock.owns_lock()) SayNewXids();
}

void GpuFigures::SayNewXids() {
  for (const unsigned long long xid : monitor_->NewXids()) {
    std::fprintf(stderr, "GPU %s: Xid %llu\n", address_.c_str(), xid);
  }
}

}  // namespace lockstep::trainer
