// JobFigures: what the jobs' statuses mean for the operator's metrics.
#ifndef LOCKSTEP_OPERATOR_CONTROL_JOB_FIGURES_H_
#define LOCKSTEP_OPERATOR_CONTROL_JOB_FIGURES_H_

#include <map>
#include <optional>

#include "base/time.h"
#include "core/job/status.h"
#include "operator/control/job_record.h"
#include "operator/control/metrics.h"

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

#endif  // LOCKSTEP_OPERATOR_CONTROL_JOB_FIGURES_H_
