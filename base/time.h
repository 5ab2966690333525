// Time as all of Lockstep counts it: nanoseconds of CLOCK_BOOTTIME, which goes on while the machine
// sleeps and never jumps. Times of two machines are never compared, only durations are; clocks'
// rates agree within 5 %.
#ifndef LOCKSTEP_BASE_TIME_H_
#define LOCKSTEP_BASE_TIME_H_

#include <chrono>

namespace lockstep {

using Duration = std::chrono::nanoseconds;
// Since this machine's boot.
using Time = std::chrono::nanoseconds;

using std::chrono::duration_cast;
using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

inline constexpr Time kNever = Time::max();

constexpr double Seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// CLOCK_BOOTTIME now. core/ never calls it: time comes in with each event.
Time BootTime();

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_TIME_H_
