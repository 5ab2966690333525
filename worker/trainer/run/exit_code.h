// How the trainer's commands end. The agent's default rules end the job on 2 and start the gang
// again on the rest.
#ifndef LOCKSTEP_WORKER_TRAINER_RUN_EXIT_CODE_H_
#define LOCKSTEP_WORKER_TRAINER_RUN_EXIT_CODE_H_

#include <string>

#include "base/result.h"

namespace lockstep::trainer {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;         // training itself went wrong: no finite loss, ...
inline constexpr int kExitConfiguration = 2;  // what it was told can't work: it says why
inline constexpr int kExitPeerLost = 75;      // a peer died or hangs
inline constexpr int kExitStopped = 143;      // on request, after saving

int ExitCodeOf(const Error& error);

// "lockstep-trainer: ..." on standard error.
void Complain(const Error& error);
// "lockstep-trainer: warning: ...".
void Warn(const std::string& message);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_RUN_EXIT_CODE_H_
