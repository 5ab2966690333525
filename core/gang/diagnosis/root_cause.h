// Finds the failure that caused the others. Peers of a dead process or machine fail within
// milliseconds, and their reports may arrive first. So the cause of each death decides, then the
// earliest time, mapped to the coordinator's clock.
#ifndef LOCKSTEP_CORE_GANG_DIAGNOSIS_ROOT_CAUSE_H_
#define LOCKSTEP_CORE_GANG_DIAGNOSIS_ROOT_CAUSE_H_

#include <string>
#include <vector>

#include "base/time.h"
#include "core/failure/failure.h"
#include "core/gang/protocol/messages.h"
#include "core/terms/process_names.h"

namespace lockstep::core {

struct MachineFate {
  uint32_t machine = 0;
  // time of the loss: declared lost, replaced, or its container ended
  bool lost = false;
  Cause lost_cause = Cause::kMachineLost;  // or kOutOfMemory
  std::string lost_how;                    // "fell silent for 15s", ...
  bool unkillable = false;
  bool lease_expired = false;
  Time lease_expired_at{};  // on its clock, like the times of the deaths
  Duration clock_offset{};  // its clock minus the coordinator's
  Duration clock_uncertainty{};
  std::vector<Failure> deaths;
  std::vector<Whereabouts> whereabouts;
};

// "rank 3 on machine 1 was killed by SIGKILL".
std::string Describe(const Failure& death, const ProcessNames& names);

// The order: a lost machine; an unkillable process; then the first process that died by itself
// before its machine was told to stop, or an expired lease. After a lease expires, peers soon fail
// by themselves, so a death precedes it only if it surely happened before.
//
// The first process: an exit with 75 (peer lost) yields to any other death. A death whose last
// words report a lost peer (failure/peer_loss.h) yields to any other. Every exit and abort yields
// to SIGKILL and faults, which no peer's end causes. Then the time decides. If deaths are closer
// together than the uncertainty of the clocks, a process killed by a signal is first, then the
// lowest rank; the message names the other as well. For a hang the message shows where the ranks
// were, and the rank is the one that the others wait for, if evidence shows one (whereabouts.h).
// The time is on the coordinator's clock; kNever if no event has one.
//
// If ranks report their place at the loss of their peers, the message includes it. If all deaths
// are exits with 75, the root cause is the rank that the others waited for, if one stands out.
Failure FindRootCause(std::vector<MachineFate> fates, const ProcessNames& names = {});

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_DIAGNOSIS_ROOT_CAUSE_H_
