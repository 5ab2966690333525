// UsageMeter: what a machine's ranks use, as rates since it was last asked: CPU and memory of their
// processes and of all that these started, and the bytes of the machine's network.
#ifndef LOCKSTEP_WORKER_AGENT_METRICS_USAGE_METER_H_
#define LOCKSTEP_WORKER_AGENT_METRICS_USAGE_METER_H_

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

class UsageMeter {
 public:
  // Reads proc/ and sys/ below `root`.
  explicit UsageMeter(std::string root = "") : root_(std::move(root)), stats_(root_) {}

  // `processes`: of the ranks, with all that descends from them. Rates are unknown (-1) at first,
  // and where the machine tells none.
  core::Usage Measure(Time now, const std::vector<pid_t>& processes);

 private:
  struct Network {
    uint64_t received = 0;
    uint64_t sent = 0;
  };

  std::string root_;
  MachineStatsReader stats_;
  std::optional<Time> at_;                            // of the last time
  std::map<std::pair<pid_t, uint64_t>, double> cpu_;  // seconds then, by process and its start
  std::optional<Network> network_;                    // then
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_METRICS_USAGE_METER_H_
