#include <algorithm>

#include "operator/policy/policies.h"

namespace lockstep::control {

void ObservePreflight(ReconcileContext& context) {
  const core::GangStatus* gang = Coordinator(context);
  if (gang == nullptr || !gang->preflight) return;
  std::optional<core::PreflightStatus>& status = context.next.preflight;
  core::JobStatus as_written;
  as_written.preflight = gang->preflight;
  core::Shorten(as_written);
  for (const core::SlowMachine& slow : as_written.preflight->slow) {
    // A replacement is told of with the machine that is replaced.
    if (slow.replaced) continue;
    if (status && std::ranges::find(status->slow, slow) != status->slow.end()) continue;
    context.AddEvent(true, "Preflight",
                     "machine " + std::to_string(slow.machine) +
                         " is slow, and the job goes on with it: " + slow.because);
  }
  status = std::move(as_written.preflight);
}

std::string SlownessOf(const ReconcileContext& context, const Machine& machine) {
  const core::GangStatus* gang = Coordinator(context);
  if (gang == nullptr || !context.spec().preflight.enabled) return "";
  for (const auto& seen : gang->machines) {
    if (seen.index == machine.index && seen.attempt == machine.attempt) return seen.slow;
  }
  return "";
}

}  // namespace lockstep::control
