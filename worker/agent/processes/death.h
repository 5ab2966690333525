// How a process of this agent's ended.
#ifndef LOCKSTEP_WORKER_AGENT_PROCESSES_DEATH_H_
#define LOCKSTEP_WORKER_AGENT_PROCESSES_DEATH_H_

#include <sys/wait.h>

#include "core/failure/failure.h"

namespace lockstep::agent {

// Cause, and exit code or signal, as waitid() tells them.
inline core::Failure DeathOf(const siginfo_t& info) {
  core::Failure death;
  if (info.si_code == CLD_EXITED) {
    death.cause = core::Cause::kProcessExit;
    death.exit_code = info.si_status;
  } else {
    death.cause = core::Cause::kProcessSignal;
    death.signal = info.si_status;
  }
  return death;
}

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_PROCESSES_DEATH_H_
