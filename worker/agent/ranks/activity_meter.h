// ActivityMeter: which of a machine's ranks work, by what the kernel counted since the last look of
// their processes and of all that these started: CPU time, and bytes that they read and wrote. A
// rank that waits for others in a collective does neither, unless its threads wait for a GPU.
#ifndef LOCKSTEP_WORKER_AGENT_RANKS_ACTIVITY_METER_H_
#define LOCKSTEP_WORKER_AGENT_RANKS_ACTIVITY_METER_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "core/terms/usage.h"
#include "worker/agent/metrics/machine_stats.h"

namespace lockstep::agent {

class ActivityMeter {
 public:
  // Of hangs that were recorded, the busiest used 0.2 % of a core and 400 bytes a second. Of pauses
  // of healthy programs, the calmest used 2.8 % of a core, or 82 KB a second.
  static constexpr double kWorkingCores = 0.01;
  static constexpr double kWorkingBytes = 10000;  // a second

  // Reads proc/ below `root`.
  explicit ActivityMeter(std::string root = "") : root_(std::move(root)), stats_(root_) {}

  // The processes of each rank. A rank whose processes use a GPU is unknown while it uses CPU time.
  // No rank is known at the first look.
  core::RankActivity Measure(Time now, const std::map<uint32_t, std::vector<pid_t>>& ranks);

 private:
  struct Count {
    double cpu_seconds = 0;
    double bytes = 0;
  };

  double BytesOf(pid_t pid) const;

  std::string root_;
  MachineStatsReader stats_;
  std::optional<Time> at_;                            // of the last look
  std::map<std::pair<pid_t, uint64_t>, Count> then_;  // by process and its start
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_RANKS_ACTIVITY_METER_H_
