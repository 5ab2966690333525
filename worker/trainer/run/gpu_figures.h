// GpuFigures: what a rank tells of its GPU beside the figures of its steps.
#ifndef LOCKSTEP_WORKER_TRAINER_RUN_GPU_FIGURES_H_
#define LOCKSTEP_WORKER_TRAINER_RUN_GPU_FIGURES_H_

#include <optional>
#include <string>

#include "base/time.h"
#include "core/model/trainer.h"
#include "worker/collectives/nccl/cuda.h"
#include "worker/trainer/cuda/gpu_monitor.h"
#include "worker/trainer/run/step_record.h"

namespace lockstep::trainer {

class GpuFigures {
 public:
  static constexpr Duration kInterval = seconds(5);

  GpuFigures(const collectives::CudaDevice& device, core::Precision precision);

  // Of NVML; empty: it tells.
  const std::string& why_not() const { return why_not_; }
  // StepRecord's.
  double peak_flops() const { return peak_flops_; }
  // Appends GpuMonitor::Read()'s where kInterval has passed since the last. A new Xid is a line of
  // stderr as well, for it may be the rank's last.
  void AddTo(Numbers& numbers, Time now);

 private:
  std::string address_;
  std::string why_not_;
  double peak_flops_ = 0;
  std::optional<GpuMonitor> monitor_;
  Time due_{};
  double xid_ = 0;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_RUN_GPU_FIGURES_H_
