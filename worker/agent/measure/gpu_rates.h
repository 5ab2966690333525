// This machine's GPUs, as `lockstep-trainer bench` finds them: the agent is one static file and
// opens no driver (docs/adr/014). For the measuring child: it waits.
#ifndef LOCKSTEP_WORKER_AGENT_MEASURE_GPU_RATES_H_
#define LOCKSTEP_WORKER_AGENT_MEASURE_GPU_RATES_H_

#include <string_view>
#include <vector>

#include "core/preflight/preflight.h"

namespace lockstep::agent {

struct GpuRates {
  std::vector<core::GpuFigures> gpus;
  double link = core::kNotMeasured;  // Figures::gpu_link; 0: they could not reach each other
};

// Of the GPUs that this process's environment shows. What can't be had is said on stderr.
GpuRates MeasureGpus();

// Of the lines that `bench gpus --json` prints; what isn't one of a GPU is passed over. Pure.
std::vector<core::GpuFigures> ParseGpuLines(std::string_view lines);
// Of those of `bench allreduce --json`: the bus bandwidth, or 0. Pure.
double ParseAllReduce(std::string_view lines);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_MEASURE_GPU_RATES_H_
