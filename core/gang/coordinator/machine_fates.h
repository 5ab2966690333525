// What became of each member of a generation that has ended, as its reports and its silence tell.
#ifndef LOCKSTEP_CORE_GANG_COORDINATOR_MACHINE_FATES_H_
#define LOCKSTEP_CORE_GANG_COORDINATOR_MACHINE_FATES_H_

#include <vector>

#include "core/gang/coordinator/alone_ranks.h"
#include "core/gang/diagnosis/root_cause.h"
#include "core/gang/roster/lease_clock.h"
#include "core/gang/roster/roster.h"
#include "core/terms/generation.h"

namespace lockstep::core {

// For FindRootCause: one for each member, in the order of the members. The death of a rank that is
// restarted alone counts only if it ended the gang.
std::vector<MachineFate> FatesOf(Generation generation, const Roster& roster,
                                 const LeaseClock& lease, const AloneRanks& alone);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_COORDINATOR_MACHINE_FATES_H_
