#include "operator/policy/policies.h"

namespace lockstep::control {

// A pod is made for one number of machines: with another, the gang is made anew.
std::optional<Stop> StopForScale(ReconcileContext& context) {
  const int32_t made = context.snapshot.status.replicas;
  const int32_t wanted = context.spec().num_machines;
  if (made == 0 || made == wanted) return std::nullopt;
  return Stop{.reason = core::StopReason::kScaled,
              .message = "scaling from " + std::to_string(made) + " to " + std::to_string(wanted) +
                         " machines"};
}

}  // namespace lockstep::control
