// How fast a GPU reads and writes this machine's memory, by the NUMA node that the memory is on.
//
//   Result<CopyReport> report = BenchCopies(*topology::Discover(), options);
//
// The memory is pinned, and bound to its node where the kernel allows that, else put there by first
// touch; `placed` says where it really was.
#ifndef LOCKSTEP_WORKER_TRAINER_MEASURE_COPY_BENCH_H_
#define LOCKSTEP_WORKER_TRAINER_MEASURE_COPY_BENCH_H_

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "worker/topology/topology.h"

namespace lockstep::trainer {

struct CopyBenchOptions {
  size_t bytes = 64 << 20;  // of a copy
  int iterations = 20;      // that count, each way
};

// One GPU and one NUMA node. Speeds are medians of the GPU's own times, in GB/s (1e9).
struct CopyRow {
  int gpu = 0;  // CUDA's number
  std::string name;
  std::string pci_address;
  int gpu_node = -1;  // -1: the machine doesn't say
  int memory_node = 0;
  double to_gpu = 0;
  double from_gpu = 0;
  double placed = -1;  // share of the memory's pages on memory_node; -1: unknown
};

struct CopyReport {
  CopyBenchOptions options;
  std::vector<CopyRow> rows;  // by GPU, then node
};

// All GPUs of this process with all nodes of `machine` that have both CPUs and memory that it may
// use. Binds the calling thread. kNotFound where there is no driver or no GPU.
Result<CopyReport> BenchCopies(const topology::Machine& machine, const CopyBenchOptions& options);

std::string ToTable(const CopyReport& report);
// One JSON object a row.
std::string ToJsonLines(const CopyReport& report);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_MEASURE_COPY_BENCH_H_
