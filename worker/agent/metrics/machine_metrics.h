// MachineMetrics: what /metrics shows of this machine's agent and of its container.
#ifndef LOCKSTEP_WORKER_AGENT_METRICS_MACHINE_METRICS_H_
#define LOCKSTEP_WORKER_AGENT_METRICS_MACHINE_METRICS_H_

#include <string>
#include <utility>
#include <vector>

#include "core/gang/member/member.h"
#include "worker/agent/metrics/families.h"
#include "worker/agent/metrics/machine_stats.h"

namespace lockstep::agent {

class MachineMetrics : public prometheus::Collectable {
 public:
  // `member` outlives it. Reads proc/, sys/ and dev/ below `root`.
  explicit MachineMetrics(const core::Member* member, std::string root = "")
      : member_(member), root_(std::move(root)), stats_(root_) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  void AddNetwork(Families* page) const;

  const core::Member* member_;
  std::string root_;
  MachineStatsReader stats_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_METRICS_MACHINE_METRICS_H_
