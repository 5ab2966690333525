// OomKills: whether the kernel killed a process of this machine for want of memory. The kernel says
// so of no process; it counts them.
#ifndef LOCKSTEP_WORKER_AGENT_METRICS_OOM_KILLS_H_
#define LOCKSTEP_WORKER_AGENT_METRICS_OOM_KILLS_H_

#include <cstdint>
#include <optional>

#include "worker/agent/metrics/machine_stats.h"

namespace lockstep::agent {

class OomKills {
 public:
  // Counts the kills so far. They explain no later death.
  void Count() { known_ = stats_.ReadOomKills(); }
  // True if the kernel killed a process since then. Each kill explains one death.
  bool TakeOne() {
    if (!known_ || stats_.ReadOomKills().value_or(0) <= *known_) return false;
    ++*known_;
    return true;
  }

 private:
  MachineStatsReader stats_;
  std::optional<uint64_t> known_;  // none: the kernel does not tell
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_METRICS_OOM_KILLS_H_
