// SecondClock: what core::Standstill compares CLOCK_BOOTTIME with on this machine. The processor's
// counter (x86-64, arm64) if the kernel holds it to be steady, else the time of day.
#ifndef LOCKSTEP_WORKER_AGENT_GANG_SECOND_CLOCK_H_
#define LOCKSTEP_WORKER_AGENT_GANG_SECOND_CLOCK_H_

#include <string_view>

#include "core/gang/diagnosis/standstill.h"

namespace lockstep::agent {

// `cpuinfo`: /proc/cpuinfo, the first processor's part at least; `clocksources`: the kernel's
// available ones, among which a counter that was found to be unsteady is not.
core::SecondClock SecondClockOf(std::string_view cpuinfo, std::string_view clocksources);
// Of this machine.
core::SecondClock FindSecondClock();

core::ClockReading ReadClocks(core::SecondClock clock);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_GANG_SECOND_CLOCK_H_
