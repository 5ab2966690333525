// MachineMetrics: what /metrics shows of this machine's agent and of its container.
#ifndef LOCKSTEP_WORKER_AGENT_METRICS_MACHINE_METRICS_H_
#define LOCKSTEP_WORKER_AGENT_METRICS_MACHINE_METRICS_H_

#include <utility>
#include <vector>

#include "core/gang/member.h"
#include "worker/agent/metrics/families.h"
#include "worker/agent/metrics/machine_stats.h"

namespace lockstep::agent {

class MachineMetrics : public prometheus::Collectable {
 public:
  // `member` outlives it.
  explicit MachineMetrics(const core::Member* member,
                          MachineStatsReader stats = MachineStatsReader())
      : member_(member), stats_(std::move(stats)) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const core::Member* member_;
  MachineStatsReader stats_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_METRICS_MACHINE_METRICS_H_
