// Standstill: finds that this machine stood still together with its clock, as a hypervisor lets a
// guest that it pauses. CLOCK_BOOTTIME, by which leases end, does not show that; a second clock
// may. Pure: readings of both come in.
//
//  - The processor's time-stamp counter, where it is steady, runs on under a paused guest. It alone
//    is asked then: whatever the time of day does, no time passed that it did not count.
//  - Else the time of day, which leaps once somebody sets it right. It leaps on a healthy machine,
//    too, so it is believed from kOrdinaryStep on only. NTP's slewing changes both clocks alike.
//
// What neither shows is not found: a guest whose counter was restored with it, as after a snapshot.
#ifndef LOCKSTEP_CORE_GANG_STANDSTILL_H_
#define LOCKSTEP_CORE_GANG_STANDSTILL_H_

#include <cstdint>

#include "base/time.h"

namespace lockstep::core {

enum class Witness : uint8_t { kCounter, kTimeOfDay };

// Both of one moment.
struct ClockReading {
  Time boot{};
  int64_t witness = 0;  // ticks of the counter, or nanoseconds of CLOCK_REALTIME
};

class Standstill {
 public:
  // timesyncd steps the time of day from 0.4 s on, chrony from 1 s.
  static constexpr Duration kOrdinaryStep = seconds(2);

  Standstill(Witness witness, ClockReading first) : witness_(witness), last_(first) {}

  // How long the machine stood still since the reading before, beyond what CLOCK_BOOTTIME shows;
  // zero if it did not. How fast the counter runs is learned from two readings that agree.
  Duration OnReading(ClockReading now);

 private:
  Witness witness_;
  ClockReading last_;
  double ticks_per_ns_ = 0;  // 0: not known yet
  double last_rate_ = 0;     // from the reading before the last to the last
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_STANDSTILL_H_
