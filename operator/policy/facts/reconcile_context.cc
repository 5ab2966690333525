#include "operator/policy/facts/reconcile_context.h"

#include "core/status/health.h"

namespace lockstep::control {

void ReconcileContext::WriteFirst() {
  StateOf<&PolicyState::record>().written = now.boot;
  // The API server gives a new job -1, which no condition may name.
  if (next.observed_generation < 0) next.observed_generation = snapshot.generation;
  const bool told = core::FindCondition(next.conditions, "Ready") != nullptr;
  if (!told || next.state != snapshot.status.state) core::SetHealth(next, why, now.wall);
  decision.intent = next;
}

void PutCondition(ReconcileContext& context, const char* type, core::Condition::Value value,
                  const char* reason, std::string message) {
  core::SetCondition(context.next.conditions,
                     {.type = type,
                      .status = value,
                      .reason = reason,
                      .message = std::move(message),
                      .observed_generation = context.snapshot.generation,
                      .last_transition_time = context.now.wall},
                     context.now.wall);
}

void SetCondition(ReconcileContext& context, const char* type, bool holds, const char* reason,
                  std::string message) {
  if (!holds && core::FindCondition(context.next.conditions, type) == nullptr) return;
  PutCondition(context, type,
               holds ? core::Condition::Value::kTrue : core::Condition::Value::kFalse, reason,
               std::move(message));
}

core::LastFailure FailureRecord(const ReconcileContext& context, core::Failure failure,
                                core::Generation generation) {
  core::LastFailure last;
  last.time = context.now.wall;
  last.epoch = context.snapshot.status.epoch;
  last.generation = generation;
  if (failure.machine >= 0 && static_cast<size_t>(failure.machine) < context.machines.size()) {
    const Machine& machine = context.machines[static_cast<size_t>(failure.machine)];
    if (machine.seen != nullptr) last.node = machine.seen->node;
  }
  last.failure = std::move(failure);
  return last;
}

const core::GangStatus* Coordinator(const ReconcileContext& context) {
  const std::optional<GangReport>& report = context.snapshot.coordinator;
  if (!report || context.machines.empty()) return nullptr;
  const Machine& machine0 = context.machines.front();
  const bool in_force =
      machine0.life == Life::kRunning && report->status.attempt == machine0.attempt;
  return in_force ? &report->status : nullptr;
}

bool IsPhase(const core::GangStatus& status, core::CoordinatorPhase phase) {
  return status.phase == core::GangPhase(phase);
}

}  // namespace lockstep::control
