#include "operator/policy/policies.h"

namespace lockstep::control {

std::optional<Stop> StopForSuspend(ReconcileContext& context) {
  if (!context.spec().suspend) return std::nullopt;
  return Stop{.reason = core::StopReason::kSuspended,
              .message = "spec.suspend is true; set it to false to continue"};
}

}  // namespace lockstep::control
