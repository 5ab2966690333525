// GangMetrics: what machine 0's /metrics shows of the whole job. Its coordinator's host tells it
// what happens. One thread.
#ifndef LOCKSTEP_WORKER_AGENT_METRICS_GANG_METRICS_H_
#define LOCKSTEP_WORKER_AGENT_METRICS_GANG_METRICS_H_

#include <prometheus/histogram.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/time.h"
#include "core/failure/failure.h"
#include "core/gang/coordinator/coordinator.h"
#include "core/gang/protocol/messages.h"
#include "core/status/ledger.h"
#include "worker/agent/metrics/families.h"
#include "worker/agent/metrics/metrics_goodput.h"

namespace lockstep::agent {

class GangMetrics : public prometheus::Collectable {
 public:
  // `coordinator` has just been made, and outlives it.
  GangMetrics(const core::Coordinator* coordinator, std::function<Time()> now);

  // A message came from a member (`local`: machine 0's own), or went to one.
  void OnHeard(const core::Message& message, bool local);
  void OnSaid(const core::Message& message);
  // The coordinator's state may have changed.
  void OnChange();
  // Counts the restarts and recoveries that are new in `history`.
  void OnHistory(const std::vector<core::GenerationRecord>& history);

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  struct Recovery {
    explicit Recovery(const char* name);
    // `generation` came after the failure. Times that are not known yet are asked for again.
    void Observe(core::Generation generation, const std::optional<Time>& from,
                 const std::optional<Time>& to);

    const char* phase;
    prometheus::Histogram seconds;
    core::Generation last;  // the last generation observed: each counts once
  };

  void AddFailures(Families* page) const;
  void AddLedger(Families* page) const;
  void AddPreflight(Families* page) const;
  void AccountTo(core::Ledger& ledger, const std::vector<core::GenerationRecord>& history) const;

  const core::Coordinator* coordinator_;
  std::function<Time()> now_;
  Time born_;
  Goodput goodput_;
  core::Ledger ledger_;  // of the coordinator's generations
  int64_t commits_granted_ = 0;
  int64_t commits_refused_ = 0;
  std::optional<Time> last_commit_;  // granted
  prometheus::Histogram heartbeats_;
  std::array<uint64_t, core::kCauseCount> restarts_{};
  core::Generation last_restarted_;
  Recovery detect_{"detect"};
  Recovery stop_{"stop"};
  Recovery spawn_{"spawn"};
  Recovery first_step_{"first_step"};
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_METRICS_GANG_METRICS_H_
