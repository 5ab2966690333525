// What the kernel counts about this machine's container and its processes, as far as it tells: a
// file that is missing or makes no sense leaves its value out, and never gives 0 instead.
//
//   MachineStatsReader reader;
//   MachineStats machine = reader.Read();
//   std::optional<ProcessStats> process = reader.ReadProcess(pid);
//
// Memory and CPU are those of the cgroup this process is in, of cgroup v2 (memory.current,
// memory.max, memory.events, cpu.stat) or else v1 (memory.usage_in_bytes, memory.limit_in_bytes,
// memory.oom_control, cpu.stat).
#ifndef LOCKSTEP_WORKER_AGENT_METRICS_MACHINE_STATS_H_
#define LOCKSTEP_WORKER_AGENT_METRICS_MACHINE_STATS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::agent {

struct MachineStats {
  std::optional<uint64_t> memory_bytes;
  std::optional<uint64_t> reclaimable_bytes;   // of memory_bytes: files not in use
  std::optional<uint64_t> memory_limit_bytes;  // the tightest that can be seen; none: no limit
  std::optional<uint64_t> oom_events;          // the limit was reached and nothing could be freed
  std::optional<uint64_t> oom_kills;           // processes killed for it
  std::optional<double> cpu_throttled_seconds;
  // Of /dev/shm, when it is a mount of its own.
  std::optional<uint64_t> shared_memory_used_bytes;
  std::optional<uint64_t> shared_memory_size_bytes;
};

struct ProcessStats {
  uint64_t start_ticks = 0;     // since boot; tells a process from a later one with its pid
  double cpu_seconds = 0;       // user and system, of all threads; children not
  double children_seconds = 0;  // likewise, of children that it has waited for
  std::optional<uint64_t> resident_bytes;  // none: a zombie
};

class MachineStatsReader {
 public:
  // Reads proc/, sys/ and dev/ below `root`.
  explicit MachineStatsReader(std::string root = "") : root_(std::move(root)) {}

  MachineStats Read() const;
  // Of Read() this alone. The kernel counts before it kills.
  std::optional<uint64_t> ReadOomKills() const;
  // nullopt when there is no such process.
  std::optional<ProcessStats> ReadProcess(pid_t pid) const;

 private:
  std::string root_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_METRICS_MACHINE_STATS_H_
