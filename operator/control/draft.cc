#include "operator/control/draft.h"

namespace lockstep::control {

const core::GangStatus* Coordinator(const Draft& draft) {
  const std::optional<GangReport>& report = draft.snapshot.coordinator;
  if (!report || draft.machines.empty()) return nullptr;
  const Machine& machine0 = draft.machines.front();
  const bool in_force =
      machine0.life == Life::kRunning && report->status.attempt == machine0.attempt;
  return in_force ? &report->status : nullptr;
}

bool IsPhase(const core::GangStatus& status, core::CoordinatorPhase phase) {
  return status.phase == core::ToString(phase);
}

}  // namespace lockstep::control
