// Which failure began it. Peers of a dead process or machine fail within milliseconds, and their
// reports may arrive first: what counts is what they died of, and whose clock, mapped to the
// coordinator's, says earliest.
#ifndef LOCKSTEP_CORE_GANG_ROOT_CAUSE_H_
#define LOCKSTEP_CORE_GANG_ROOT_CAUSE_H_

#include <string>
#include <vector>

#include "base/time.h"
#include "core/failure/failure.h"
#include "core/gang/messages.h"
#include "core/terms/process_names.h"

namespace lockstep::core {

struct MachineFate {
  uint32_t machine = 0;
  bool lost = false;                       // declared lost, replaced, or its container ended
  Cause lost_cause = Cause::kMachineLost;  // or kOutOfMemory
  std::string lost_how;                    // "fell silent for 15s", ...
  bool unkillable = false;
  bool lease_expired = false;
  Time lease_expired_at{};  // on its clock, as the deaths' times are
  Duration clock_offset{};  // its clock less the coordinator's
  Duration clock_uncertainty{};
  std::vector<Failure> deaths;
  std::vector<Whereabouts> whereabouts;
};

// "rank 3 on machine 1 was killed by SIGKILL".
std::string Describe(const Failure& death, const ProcessNames& names);

// A lost machine first, then an unkillable process, then the first process that died by itself
// before its machine was told to stop, or an expired lease: its machine's peers fail by themselves
// soon after, so that a death comes before it only if it surely happened before.
//
// Which process was first: an exit with 75 (peer lost) yields to any other death, one whose last
// words are of a lost peer (failure/peer_loss.h) to any that says no such thing, and every exit and
// abort to SIGKILL and faults, which no peer's end leads to. Then the time decides. Deaths
// closer together than their clocks' uncertainty: one killed by a signal first, then the lowest
// rank. The message names the other as well. Of a hang it says where the ranks were, and the rank
// is that which the others wait for, if evidence shows one (whereabouts.h). Its time is on the
// coordinator's clock; kNever where no event has one.
//
// Where ranks say where they stood when they lost their peers, its message says so, too; where none
// died but of that (75), the death is that of the rank which the others waited for, if one stands
// out.
Failure FindRootCause(std::vector<MachineFate> fates, const ProcessNames& names = {});

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_ROOT_CAUSE_H_
