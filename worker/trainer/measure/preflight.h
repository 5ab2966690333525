// Whether the machines of a gang are alike: each measures its cores, memory and disk and its links
// to the others, all at the same time, and what is far below the gang's median is named.
//
//   Result<PreflightReport> report = Preflight(*all, options);
//   if (const MachineFigures& own = report->machines[machine]; !own.well()) ... // it is replaced
//
// Each part takes about half a second, however slow the machine is; the links half a second a
// round, in which every machine talks to one other.
#ifndef LOCKSTEP_WORKER_TRAINER_MEASURE_PREFLIGHT_H_
#define LOCKSTEP_WORKER_TRAINER_MEASURE_PREFLIGHT_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "core/preflight/preflight.h"
#include "worker/trainer/collectives/group/bench.h"

namespace lockstep::trainer {

using core::Figures;
using core::MachineFigures;

struct PreflightOptions {
  int processes = 1;        // of each machine
  int threads = 1;          // of each process, for products and memory
  std::string folder = {};  // whose disk is measured; empty: none
  core::PreflightLimits limits = {};
  collectives::BenchMemory* memory = nullptr;  // for the network's buffers; null: host memory
};

struct PreflightReport {
  std::vector<MachineFigures> machines;
  double busbw = 0;  // GB/s of an allreduce of 1 MiB; 0: one rank, or a machine is slow

  bool passed() const;
};

// Runs on all ranks alike, and has the same report on all of them.
Result<PreflightReport> Preflight(collectives::Communicator& all, const PreflightOptions& options);

std::string ToTable(const PreflightReport& report);
std::string ToJsonLine(const PreflightReport& report);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_MEASURE_PREFLIGHT_H_
