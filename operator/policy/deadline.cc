#include "operator/policy/policies.h"

namespace lockstep::control {

// The deadline counts from the first creation after the last suspension, as batch/v1 Job has it.
std::optional<Stop> StopForDeadline(Draft& draft) {
  const int64_t deadline = draft.spec().active_deadline_seconds;
  const std::optional<WallTime>& created = draft.snapshot.status.timings.created;
  if (deadline <= 0 || !created) return std::nullopt;
  const WallTime due = *created + seconds(deadline);
  if (draft.now.wall < due) {
    draft.WakeAt(draft.now.Boot(due));
    return std::nullopt;
  }
  return Stop{.reason = core::StopReason::kDeadline,
              .fails = true,
              .message = "spec.activeDeadlineSeconds (" + std::to_string(deadline) + ") passed"};
}

}  // namespace lockstep::control
