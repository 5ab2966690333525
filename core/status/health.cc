#include "core/status/health.h"

#include <utility>

#include "base/text/enum_names.h"

namespace lockstep::core {

HealthStatus HealthOf(const JobStatus& status) {
  switch (status.state) {
    case JobState::kRunning:
    case JobState::kSuspended:
    case JobState::kSucceeded:
      return HealthStatus::kCurrent;
    case JobState::kFailed:
      return HealthStatus::kFailed;
    case JobState::kPending:
    case JobState::kQueued:
    case JobState::kStarting:
    case JobState::kRestarting:
    case JobState::kStopping:
      break;
  }
  const Condition* conflict = FindCondition(status.conditions, "NameConflict");
  const bool waits_for_people = conflict != nullptr && conflict->status == Condition::Value::kTrue;
  return waits_for_people ? HealthStatus::kFailed : HealthStatus::kInProgress;
}

void SetHealth(JobStatus& status, const std::string& why, WallTime now) {
  const HealthStatus health = HealthOf(status);
  const auto put = [&](const char* type, bool holds, const std::string& message) {
    SetCondition(status.conditions,
                 {.type = type,
                  .status = holds ? Condition::Value::kTrue : Condition::Value::kFalse,
                  .reason = why.empty() ? ToString(status.state) : why,
                  .message = message,
                  .observed_generation = status.observed_generation,
                  .last_transition_time = now},
                 now);
  };
  // False is written too, because kstatus treats an object without Ready as ready.
  put("Ready", health == HealthStatus::kCurrent, status.reason);
  for (const auto& [type, of] : {std::pair("Reconciling", HealthStatus::kInProgress),
                                 std::pair("Stalled", HealthStatus::kFailed)}) {
    const bool holds = health == of;
    if (!holds && FindCondition(status.conditions, type) == nullptr) continue;
    put(type, holds, holds ? status.reason : "");
  }
}

}  // namespace lockstep::core
