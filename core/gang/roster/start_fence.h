// StartFence: tells whether a rank of an earlier generation may still be alive. The coordinator
// sends no START while one may. Reads the roster and the lease clock, and changes neither. Pure.
#ifndef LOCKSTEP_CORE_GANG_ROSTER_START_FENCE_H_
#define LOCKSTEP_CORE_GANG_ROSTER_START_FENCE_H_

#include <cstdint>

#include "base/time.h"
#include "core/gang/roster/lease_clock.h"
#include "core/gang/roster/roster.h"
#include "core/terms/members.h"

namespace lockstep::core {

class StartFence {
 public:
  // `attempt`: that of this machine 0. Roster and clock must outlive the fence.
  StartFence(uint32_t attempt, const Roster& roster, const LeaseClock& lease)
      : attempt_(attempt), roster_(roster), lease_(lease) {}

  // Whether each of `machines` is connected, can take part, and has answered a PING.
  bool Reaches(const Members& machines) const;

  // Whether ranks of an earlier generation may be alive, on a member, on a machine that is left
  // out, or under an earlier coordinator, of whose gang `witnesses` were members.
  bool OldRanksMayLive(Time now, const Members& witnesses) const;

 private:
  bool MayRunOldRanks(Time now, const Roster::Slot& member) const;
  bool IsOut(Time now, const Roster::Slot& left_out) const;

  const uint32_t attempt_;
  const Roster& roster_;
  const LeaseClock& lease_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_ROSTER_START_FENCE_H_
