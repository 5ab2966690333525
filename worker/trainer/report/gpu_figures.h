// GpuFigures: what a rank tells of its GPU beside the figures of its steps.
#ifndef LOCKSTEP_WORKER_TRAINER_REPORT_GPU_FIGURES_H_
#define LOCKSTEP_WORKER_TRAINER_REPORT_GPU_FIGURES_H_

#include <mutex>
#include <optional>
#include <string>

#include "base/time.h"
#include "core/model/trainer.h"
#include "worker/trainer/collectives/cuda/cuda.h"
#include "worker/trainer/cuda/libraries/gpu_monitor.h"
#include "worker/trainer/report/step_record.h"

namespace lockstep::trainer {

class GpuFigures {
 public:
  static constexpr Duration kInterval = seconds(5);

  GpuFigures(const collectives::CudaDevice& device, core::Precision precision);

  // Of NVML; empty: it tells.
  const std::string& why_not() const { return why_not_; }
  // StepRecord's.
  double peak_flops() const { return peak_flops_; }
  // Where kInterval has passed since the last: a line of stderr for each new Xid, and appends
  // GpuMonitor::Read()'s.
  void AddTo(Numbers& numbers, Time now);
  // Why this rank fails: SayXids(), and kBroken in place of `error` if the GPU reported a fatal Xid
  // in the last minute. An error in the job itself (kInvalid) stays. From any thread.
  Error Judge(const Error& error, Time now);

 private:
  // How long before a failure a fatal Xid may have been read and still be its cause.
  static constexpr Duration kXidMemory = seconds(60);

  // A line of stderr for each Xid that was not said yet.
  void SayNewXids(Time now);

  std::string address_;
  std::string why_not_;
  double peak_flops_ = 0;
  std::mutex asking_;
  std::optional<GpuMonitor> monitor_;  // under asking_, but for whether there is one
  std::string fatal_;                  // "Xid 79 (it has fallen off the bus)"; under asking_
  Time fatal_at_{};
  Time due_{};
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_REPORT_GPU_FIGURES_H_
