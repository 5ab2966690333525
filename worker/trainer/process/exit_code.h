// How the trainer's commands end: kExitSuccess, kExitTrouble (training itself went wrong, such as a
// loss that is not finite), kExitUsage (what it was told cannot work), kExitPeerLost,
// kExitBroken (a GPU is lost), or kExitStopped after a save on request. The agent's default rules
// end the job on kExitUsage, replace the machine on kExitBroken, and start the gang again on the
// rest.
#ifndef LOCKSTEP_WORKER_TRAINER_PROCESS_EXIT_CODE_H_
#define LOCKSTEP_WORKER_TRAINER_PROCESS_EXIT_CODE_H_

#include <string>

#include "base/result.h"
#include "core/exit_codes.h"

namespace lockstep::trainer {

int ExitCodeOf(const Error& error);

// "lockstep-trainer: ..." on standard error.
void Complain(const Error& error);
// Complains, and returns the exit code.
int Fail(const Error& error);
// "lockstep-trainer: warning: ...".
void Warn(const std::string& message);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_PROCESS_EXIT_CODE_H_
