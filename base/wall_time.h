// The time of day, for documents that people and API servers read: RFC 3339, UTC. It may jump, so
// nothing is decided by it but what refers to a document's own times, as a deadline after
// `created`.
#ifndef LOCKSTEP_BASE_WALL_TIME_H_
#define LOCKSTEP_BASE_WALL_TIME_H_

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace lockstep {

// Leap seconds are not counted. Years 1678 to 2261.
using WallTime = std::chrono::sys_time<Duration>;

// CLOCK_REALTIME now.
WallTime WallNow();

// 2026-11-21T08:38:39Z, with a fraction of up to nine digits (more are dropped) and any offset;
// `t` and `z` are taken too. A leap second reads as the second after it. Errors: Invalid.
Result<WallTime> ParseWallTime(std::string_view text);

// 2026-11-21T08:38:39Z: whole seconds, as metav1.Time is written. The fraction is cut off.
std::string FormatWallTime(WallTime time);

// 2026-11-21T08:38:39.123456Z: always six digits, as metav1.MicroTime is written.
std::string FormatMicroTime(WallTime time);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_WALL_TIME_H_
