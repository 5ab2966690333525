// Standstill: detects that this machine stood still together with its clock, as when a hypervisor
// pauses a guest. Leases use CLOCK_BOOTTIME, which does not show that; a second clock may. Pure:
// readings of both come in.
//
//  - A steady time-stamp counter of the processor keeps running while the guest is paused. If there
//    is one, it is the only source, because it counts all time that passed.
//  - Else the time of day, which leaps when it is corrected. It leaps on a healthy machine too, so
//    only leaps from kOrdinaryStep on count. NTP's slewing changes both clocks alike.
//
// A standstill that neither clock shows is not detected, such as a guest whose counter was restored
// from a snapshot.
#ifndef LOCKSTEP_CORE_GANG_DIAGNOSIS_STANDSTILL_H_
#define LOCKSTEP_CORE_GANG_DIAGNOSIS_STANDSTILL_H_

#include <cstdint>

#include "base/time.h"

namespace lockstep::core {

enum class SecondClock : uint8_t { kCounter, kTimeOfDay };

// Readings of both clocks at one moment.
struct ClockReading {
  Time boot{};
  int64_t ticks = 0;  // ticks of the counter, or nanoseconds of CLOCK_REALTIME
};

class Standstill {
 public:
  // timesyncd steps the time of day from 0.4 s on, chrony from 1 s.
  static constexpr Duration kOrdinaryStep = seconds(2);

  Standstill(SecondClock clock, ClockReading first) : second_clock_(clock), last_(first) {}

  // How long the machine stood still since the last reading, beyond CLOCK_BOOTTIME; zero if it did
  // not. The counter's rate comes from two readings that agree.
  Duration OnReading(ClockReading now);

 private:
  SecondClock second_clock_;
  ClockReading last_;
  double ticks_per_ns_ = 0;  // 0: not known yet
  double last_rate_ = 0;     // from the reading before the last to the last
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_DIAGNOSIS_STANDSTILL_H_
