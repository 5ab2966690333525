// What the processor and the kernel count of one thread while it is timed.
#ifndef LOCKSTEP_CLI_NUMA_COUNTERS_H_
#define LOCKSTEP_CLI_NUMA_COUNTERS_H_

#include <array>
#include <cstdint>

#include "base/unique_fd.h"

namespace lockstep::numa {

inline constexpr std::array<const char*, 5> kCounterNames = {
    "node-loads", "node-load-misses", "page-faults", "cpu-migrations", "context-switches"};

// By position in kCounterNames. `errors`: why there is no figure, an errno; 0: there is one.
struct Counts {
  std::array<uint64_t, kCounterNames.size()> values{};
  std::array<int, kCounterNames.size()> errors{};
};

// Of the calling thread, by perf_event_open. The first two take a processor that shows its counters
// (ENOENT: a virtual machine that doesn't) and a kernel and seccomp profile that allow it (EACCES,
// EPERM).
class Counters {
 public:
  Counters();
  void Start();
  Counts Stop();

 private:
  std::array<UniqueFd, kCounterNames.size()> fds_;
  Counts counts_;
};

}  // namespace lockstep::numa

#endif  // LOCKSTEP_CLI_NUMA_COUNTERS_H_
