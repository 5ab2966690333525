// `lockstep bench numa`: what it is worth on this machine that memory is near.
//
//   Result<Report> report = RunBench(*topology::Discover(), options, stop, progress);
//
// Every setting is run `repetitions` times, in an order drawn anew for each round, so that what
// else happens on the machine falls on all of them; a figure of one run is STREAM's, the best of
// its passes.
#ifndef LOCKSTEP_CLI_NUMA_BENCH_H_
#define LOCKSTEP_CLI_NUMA_BENCH_H_

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/numa/statistics.h"
#include "cli/numa/team.h"
#include "worker/topology/topology.h"

namespace lockstep::numa {

enum class Kind {
  kBaseline,
  kLocal,
  kRemote,
  kInterleaved,
  kThreads,
  kProcesses,
  kLatency,
  kSizes,     // one worker on more and more memory, with kernels and with pointers
  kMessages,  // from the CPUs of cpu_node to those of memory_node
};
const char* ToString(Kind kind);  // "baseline", "local", ...
std::optional<Kind> ParseKind(std::string_view name);

struct Setting {
  Kind kind = Kind::kBaseline;
  int cpu_node = -1;  // whose CPUs work; -1: all nodes'
  TeamWork work;      // its `bytes` is of one array

  int memory_node() const { return work.memory.size() == 1 ? work.memory[0].id : -1; }
};

// What is compared on a machine: of the nodes that have both CPUs and memory this process may use.
// One worker a core, as far as the CPU quota goes; `work.bytes` is left open. Never empty.
std::vector<Setting> Settings(const topology::Machine& machine);

// Kind::kSizes on the first node: working sets of 16 KiB, four times as much each, up to `most`. A
// working set is the round of pointers, or all three arrays.
std::vector<Setting> SizeSettings(const topology::Machine& machine, size_t most);

// The NUMA nodes that Settings compares.
std::vector<int> ComparedNodes(const topology::Machine& machine);

struct Options {
  int repetitions = 20;
  size_t array_bytes = 0;       // 0: what ArraySize says
  uint64_t seed = 1;            // of the order and the intervals
  std::vector<Kind> only = {};  // kinds to run; empty: all
};

// How large an array of STREAM is, and the round of pointers.
struct ArraySize {
  size_t bytes = 0;                       // of one array
  size_t cache_bytes = 0;                 // all last-level caches of the machine; 0: unknown
  std::optional<size_t> free_bytes = {};  // of memory, within the cgroup's limit; nullopt: unknown
  bool follows_rule = false;              // STREAM's: at least four times the caches
};
// Four times the caches or, where that is too much, a sixth of the free memory: three arrays then
// take half of it. Reads below `root`.
ArraySize ChooseArraySize(const topology::Machine& machine, size_t wanted, const std::string& root);

struct Row {
  Setting setting;
  std::array<Summary, kKernels.size()> bytes_per_second;  // counted as STREAM counts
  Summary nanoseconds;                                    // of pointers and of messages
  Summary message_bytes_per_second;                       // of messages
  std::optional<Summary> of_local;  // triad or latency against the local one of the same round
  double placed = -1;  // the least share of pages where they were asked for; -1: unknown
  int mbind_errno = 0;
  Counts counts;       // of the last run
  std::string failed;  // why there are no figures
};

// Why no copies between host and GPUs are measured, and who does.
inline constexpr const char* kNoGpuCopies =
    "lockstep is one static file, which cannot open the GPU's driver library: "
    "`lockstep-trainer bench copies` measures them";

struct Report {
  Options options;
  ArraySize size;
  std::vector<int> nodes;
  std::vector<Row> rows;  // in the order of Settings
  bool huge_pages = false;
  double cpu_quota = 0;  // CPUs' worth of time, where that is less than there are cores; else 0
  // By node, kernel's name ("numa_hit") and how much it grew meanwhile: pages allocated, by
  // anybody.
  std::map<int, std::map<std::string, int64_t>> numastat;
};

// `progress` is told the runs done and all runs. Unavailable when interrupted.
Result<Report> RunBench(const topology::Machine& machine, const Options& options,
                        const std::atomic<bool>& stop,
                        const std::function<void(int done, int all)>& progress);

}  // namespace lockstep::numa

#endif  // LOCKSTEP_CLI_NUMA_BENCH_H_
