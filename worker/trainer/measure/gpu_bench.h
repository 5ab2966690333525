// What each GPU of this process is good for, before a job uses it: all of them multiply at once,
// as they will in training, and NVML is asked for what no speed shows. For the agent's preflight
// and for people.
//
//   Result<std::vector<GpuRow>> rows = BenchGpus();
#ifndef LOCKSTEP_WORKER_TRAINER_MEASURE_GPU_BENCH_H_
#define LOCKSTEP_WORKER_TRAINER_MEASURE_GPU_BENCH_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "core/preflight/preflight.h"

namespace lockstep::trainer {

struct GpuRow {
  core::GpuFigures figures;
  std::string name;
  std::string pci_address;
  std::string without;  // why products or NVML's part of it could not be had; ""
};

// By CUDA's number. kNotFound where there is no driver or no GPU.
Result<std::vector<GpuRow>> BenchGpus();

std::string ToTable(const std::vector<GpuRow>& rows);
// One JSON object a GPU.
std::string ToJsonLines(const std::vector<GpuRow>& rows);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_MEASURE_GPU_BENCH_H_
