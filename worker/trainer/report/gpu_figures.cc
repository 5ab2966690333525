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
  SayNewXids(now);
  for (const auto& [name, value] : monitor_->Read()) numbers.emplace_back(name, value);
}

Error GpuFigures::Judge(const Error& error, Time now) {
  if (!monitor_) return error;
  // If NVML does not answer the thread that asks it just now, this one must not wait as well.
  const std::unique_lock lock(asking_, std::try_to_lock);
  if (!lock.owns_lock()) return error;
  SayNewXids(now);
  if (fatal_.empty() || now - fatal_at_ > kXidMemory || error.kind == ErrorKind::kInvalid) {
    return error;
  }
  return {ErrorKind::kBroken, error.message + "; GPU " + address_ + " reported " + fatal_ +
                                  ", so the machine must be replaced"};
}

void GpuFigures::SayNewXids(Time now) {
  for (const unsigned long long xid : monitor_->NewXids()) {
    std::fprintf(stderr, "GPU %s: Xid %llu\n", address_.c_str(), xid);
    const std::string_view fatal = FatalXid(xid);
    if (fatal.empty()) continue;
    fatal_ = "Xid " + std::to_string(xid) + " (" + std::string(fatal) + ")";
    fatal_at_ = now;
  }
}

}  // namespace lockstep::trainer
