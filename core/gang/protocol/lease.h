// The arithmetic of the gang's one lease. A grant limits the life of every rank by the longest
// silence of any member. If that member last answered a PING that was sent at time s, every rank is
// dead at s + 0.8 L on the coordinator's clock.
#ifndef LOCKSTEP_CORE_GANG_PROTOCOL_LEASE_H_
#define LOCKSTEP_CORE_GANG_PROTOCOL_LEASE_H_

#include <algorithm>

#include "base/time.h"
#include "core/gang/protocol/messages.h"

namespace lockstep::core {

// The rest of L is the margin for clock rates (5 %) and for SIGKILL to take effect.
constexpr Duration LeaseShare(Duration length) { return length / 10 * 8; }

constexpr Duration PingInterval(Duration length) {
  return std::max<Duration>(length / 20, milliseconds(100));
}

// When the lease ends on the clock that `grant.echo` was read from. The echo is older than the
// sending of the grant, so a grant that arrives late only ends earlier.
inline Time LeaseEnd(const LeaseGrant& grant) {
  return grant.present ? grant.echo + LeaseShare(grant.length) - grant.age : Time::min();
}

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_PROTOCOL_LEASE_H_
