// A team of workers, threads or processes, that run the kernels together once, each on memory of
// its own: an array of STREAM is cut into one slice a worker.
#ifndef LOCKSTEP_CLI_NUMA_TEAM_H_
#define LOCKSTEP_CLI_NUMA_TEAM_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/numa/counters.h"
#include "cli/numa/kernels.h"
#include "worker/topology/binding/placed_memory.h"

namespace lockstep::numa {

using topology::MemoryNode;

enum class Task {
  kStream,    // the kernels
  kChase,     // one worker follows pointers
  kMessages,  // two processes send messages to each other through memory that they share
};

struct TeamWork {
  std::vector<int> cpus;           // of each worker; -1: left as it is
  std::vector<MemoryNode> memory;  // one: bound there; several: interleaved; none: first touch.
                                   // Messages lie where the sender touched them first
  bool processes = false;          // else threads
  Task task = Task::kStream;
  size_t bytes = 0;  // of one array in all; of the round of pointers
};

struct TeamResult {
  std::array<double, kKernels.size()> seconds{};  // the best of kPasses, the first not among them
  double nanoseconds = 0;      // one step of the chase; a message of 4 bytes, one way
  double message_seconds = 0;  // one message of kMessageBytes: the best pass, as for kernels
  uint64_t pages = 0;          // that numa_maps shows of the arrays, 0: it doesn't
  uint64_t pages_placed = 0;   // those of them on the nodes that were asked for
  int mbind_errno = 0;         // why pages were placed by first touch; 0: by mbind
  bool huge_pages = false;     // the kernel took the wish for huge pages
  Counts counts;               // of all workers
};

inline constexpr int kPasses = 4;
inline constexpr size_t kMessageBytes = size_t{1} << 20;

// Runs one team to its end. Interrupted is Unavailable; `stop` is looked at between two passes.
// Errors say which step failed for which worker. Forks, so call it while the program has one
// thread.
Result<TeamResult> RunTeam(const TeamWork& work, const std::atomic<bool>& stop);

}  // namespace lockstep::numa

#endif  // LOCKSTEP_CLI_NUMA_TEAM_H_
