#include "core/gang/coordinator/machine_fates.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockstep::core {

std::vector<MachineFate> FatesOf(Generation generation, const Roster& roster,
                                 const LeaseClock& lease, const AloneRanks& alone) {
  std::vector<MachineFate> fates;
  for (const Roster::Slot& slot : roster.gang()) {
    const LeaseClock::Pulse& pulse = lease.of(slot.machine);
    MachineFate fate;
    fate.machine = slot.machine;
    fate.lost = slot.lost_in == generation && !slot.replace;
    fate.lost_cause = slot.lost_cause;
    fate.lost_how = slot.lost_how;
    fate.clock_offset = pulse.clock_offset;
    fate.clock_uncertainty = pulse.has_echo ? pulse.clock_uncertainty : Duration::zero();
    fate.lease_expired_at = slot.report.lease_expired_at;
    if (slot.report.generation == generation) {
      fate.unkillable = slot.report.unkillable;
      fate.lease_expired = slot.report.lease_expired;
      fate.deaths = slot.report.deaths;
      std::ranges::copy_if(slot.report.down, std::back_inserter(fate.deaths),
                           [&alone](const Failure& death) {
                             return alone.escalated(static_cast<uint32_t>(death.rank));
                           });
      fate.whereabouts = slot.report.whereabouts;
    }
    fates.push_back(std::move(fate));
  }
  return fates;
}

}  // namespace lockstep::core
