// NCCL's log, kept in this process's memory. NCCL has no function that tells which network it
// chose, but every version writes it to its log.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_NCCL_LOG_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_NCCL_LOG_H_

#include <string>
#include <string_view>

#include "worker/trainer/collectives/collectives.h"

namespace lockstep::collectives {

// Lets NCCL write its log into a file in memory, by NCCL_DEBUG, NCCL_DEBUG_SUBSYS and
// NCCL_DEBUG_FILE. Does nothing if NCCL_DEBUG or NCCL_DEBUG_FILE is set, here or in NCCL's
// configuration files, because that log is the user's. Call it while the process has one thread,
// and before NCCL.
void KeepNcclLog();
// What NCCL has written so far; "" if no log is kept.
std::string NcclLogText();
// The network of the newest communicator in NCCL's log.
MachineNetwork NetworkInLog(std::string_view log);

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_NCCL_LOG_H_
