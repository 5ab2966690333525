// JobFigures: what the jobs' statuses mean for the operator's metrics.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_JOB_FIGURES_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_JOB_FIGURES_H_

#include <map>
#include <optional>

#include "base/time.h"
#include "core/status/status.h"
#include "operator/controller/job_record.h"
#include "operator/controller/metrics.h"

namespace lockstep::control {

class JobFigures {
 public:
  explicit JobFigures(Metrics* metrics) : metrics_(metrics) {}

  // nullopt: the job is gone.
  void SetState(std::optional<core::JobState> state, JobRecord* record);
  // `after` was written over `before`, that long after the job's creation.
  void OnWritten(const core::JobStatus& before, const core::JobStatus& after, Duration age);

 private:
  Metrics* metrics_;
  std::map<core::JobState, int> by_state_;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_JOB_FIGURES_H_
