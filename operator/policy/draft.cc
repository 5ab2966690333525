#include "operator/policy/draft.h"

namespace lockstep::control {

void PutCondition(Draft& draft, const char* type, core::Condition::Value value, const char* reason,
                  std::string message) {
  core::SetCondition(draft.next.conditions,
                     {.type = type,
                      .status = value,
                      .reason = reason,
                      .message = std::move(message),
                      .observed_generation = draft.snapshot.generation,
                      .last_transition_time = draft.now.wall},
                     draft.now.wall);
}

void SetCondition(Draft& draft, const char* type, bool holds, const char* reason,
                  std::string message) {
  if (!holds && core::FindCondition(draft.next.conditions, type) == nullptr) return;
  PutCondition(draft, type, holds ? core::Condition::Value::kTrue : core::Condition::Value::kFalse,
               reason, std::move(message));
}

const core::GangStatus* Coordinator(const Draft& draft) {
  const std::optional<GangReport>& report = draft.snapshot.coordinator;
  if (!report || draft.machines.empty()) return nullptr;
  const Machine& machine0 = draft.machines.front();
  const bool in_force =
      machine0.life == Life::kRunning && report->status.attempt == machine0.attempt;
  return in_force ? &report->status : nullptr;
}

bool IsPhase(const core::GangStatus& status, core::CoordinatorPhase phase) {
  return status.phase == core::GangPhase(phase);
}

}  // namespace lockstep::control
