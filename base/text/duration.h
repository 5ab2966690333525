// Durations as Go and Kubernetes write them: 1h30m, 1.5s, 500ms, 0s.
#ifndef LOCKSTEP_BASE_TEXT_DURATION_H_
#define LOCKSTEP_BASE_TEXT_DURATION_H_

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace lockstep {

// [+-](number unit)+ with units ns us µs ms s m h, or a bare 0. Fractions below a nanosecond are
// dropped, as Go drops them. Errors: Invalid (a number without a unit among them), TooLarge
// (over 292 years).
Result<Duration> ParseDuration(std::string_view text);

// The shortest form that ParseDuration reads back to the same value: 1h30m, 1.5s, 250ms, 0s.
std::string FormatDuration(Duration duration);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_TEXT_DURATION_H_
