#include "operator/policy/policies.h"

namespace lockstep::control {

// The deadline counts from the first creation after the last suspension, as batch/v1 Job has it.
std::optional<Stop> StopForDeadline(ReconcileContext& context) {
  const int64_t deadline = context.spec().active_deadline_seconds;
  const std::optional<WallTime>& created = context.snapshot.status.timings.created;
  if (deadline <= 0 || !created) return std::nullopt;
  if (!context.IsDue(*created + seconds(deadline))) return std::nullopt;
  return Stop{.reason = core::StopReason::kDeadline,
              .fails = true,
              .message = "spec.activeDeadlineSeconds (" + std::to_string(deadline) + ") passed"};
}

}  // namespace lockstep::control
