// Health: the conditions by which other programs judge a job without knowing its states: Ready,
// Reconciling and Stalled, as kstatus (Helm, Flux, kpt) reads them. docs/adr/048 has the table.
// They follow from the rest of the status.
#ifndef LOCKSTEP_CORE_STATUS_HEALTH_H_
#define LOCKSTEP_CORE_STATUS_HEALTH_H_

#include <cstdint>
#include <string>

#include "base/wall_time.h"
#include "core/status/status.h"

namespace lockstep::core {

enum class HealthStatus : uint8_t {
  kInProgress,  // it is on its way to what the spec asks for
  kCurrent,     // it is what the spec asks for: all ranks run, it is suspended, or it has succeeded
  kFailed,      // it has failed, or cannot continue before a user removes a foreign object
};

// `status` must have its state and condition NameConflict up to date.
HealthStatus HealthOf(const JobStatus& status);

// Puts the three conditions into `status`, with its reason as their message. `why` is the word for
// that reason, in CamelCase; empty: the state's name.
void SetHealth(JobStatus& status, const std::string& why, WallTime now);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_STATUS_HEALTH_H_
