#include "operator/controller/job_figures.h"

#include <cstdint>

#include "core/failure/failure.h"

namespace lockstep::control {

void JobFigures::SetState(std::optional<core::JobState> state, JobRecord* record) {
  if (record->counted == state) return;
  if (record->counted) --by_state_[*record->counted];
  if (state) ++by_state_[*state];
  record->counted = state;
  metrics_->SetJobs(by_state_);
}

void JobFigures::OnWritten(const core::JobStatus& before, const core::JobStatus& after,
                           Duration age) {
  if (before.created_epoch == 0 && after.created_epoch != 0) metrics_->OnPodsMade(age);
  if (!before.timings.started && after.timings.started) metrics_->OnRunning(age);
  const auto count = [this](int32_t from, int32_t to, core::CauseClass cause_class) {
    for (; from < to; ++from) metrics_->OnRestart(cause_class);
  };
  count(before.restarts.application, after.restarts.application, core::CauseClass::kApplication);
  count(before.restarts.infrastructure, after.restarts.infrastructure,
        core::CauseClass::kInfrastructure);
  count(before.restarts.stopped, after.restarts.stopped, core::CauseClass::kStopped);
}

}  // namespace lockstep::control
