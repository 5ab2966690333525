// The operator's own figures (docs/metrics.md), in Prometheus' text format. No job's name stands in
// any of them. Any thread.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_METRICS_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <string>

#include "base/time.h"
#include "core/failure/failure.h"
#include "core/status/status.h"
#include "operator/kube/client.h"

namespace lockstep::control {

class Metrics {
 public:
  explicit Metrics(const std::string& version);

  void OnDecided(Duration queue_wait, Duration decide);
  void OnApiCall(const kube::CallRecord& call);
  void OnWatch(const std::string& resource);  // begun; its restarts are counted from 0
  void OnWatchRestart(const std::string& resource);
  void OnPodsMade(Duration since_creation);
  void OnRunning(Duration since_creation);
  void OnRestart(core::CauseClass cause_class);
  void SetJobs(const std::map<core::JobState, int>& by_state);
  void SetLeader(bool leads);

  // The body of GET /metrics.
  std::string Scrape() const;

 private:
  prometheus::Registry registry_;
  prometheus::Histogram* queue_wait_;
  prometheus::Histogram* decide_;
  prometheus::Histogram* to_pods_;
  prometheus::Histogram* to_running_;
  prometheus::Gauge* leader_;
  prometheus::Family<prometheus::Counter>* api_calls_;
  prometheus::Family<prometheus::Histogram>* api_seconds_;
  prometheus::Family<prometheus::Counter>* watch_restarts_;
  prometheus::Family<prometheus::Counter>* restarts_;
  std::map<core::JobState, prometheus::Gauge*> jobs_;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_METRICS_H_
