// JobFigures: what the jobs' statuses mean for the operator's metrics.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_METRICS_JOB_FIGURES_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_METRICS_JOB_FIGURES_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <optional>
#include <vector>

#include "base/time.h"
#include "core/status/status.h"
#include "operator/controller/jobs/job_record.h"

namespace lockstep::control {

// The suspect nodes of which `after` has seen more, with how often since `before`.
std::vector<core::SuspectNode> NewEvidence(const core::JobStatus& before,
                                           const core::JobStatus& after);

class JobFigures {
 public:
  explicit JobFigures(prometheus::Registry* registry);

  // nullopt: the job is gone.
  void SetState(std::optional<core::JobState> state, JobRecord* record);
  // Ready spares of this job; 0 once it is gone.
  void SetSpares(int32_t ready, JobRecord* record);
  // `after` was written over `before`, that long after the job's creation.
  void OnWritten(const core::JobStatus& before, const core::JobStatus& after, Duration age);

 private:
  void CountLosses(const core::JobStatus& before, const core::JobStatus& after);

  prometheus::Histogram* to_pods_;
  prometheus::Histogram* to_running_;
  prometheus::Family<prometheus::Counter>* restarts_;
  prometheus::Family<prometheus::Counter>* lost_;
  std::map<core::JobState, prometheus::Gauge*> jobs_;
  prometheus::Family<prometheus::Counter>* evidence_;
  prometheus::Gauge* spares_;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_METRICS_JOB_FIGURES_H_
