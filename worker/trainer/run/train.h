// `lockstep-trainer train`: one rank of a data-parallel training run, from start to end.
#ifndef LOCKSTEP_WORKER_TRAINER_RUN_TRAIN_H_
#define LOCKSTEP_WORKER_TRAINER_RUN_TRAIN_H_

#include "worker/trainer/run/options.h"

namespace lockstep::trainer {

// Exit codes. The agent's default rules end the job on 2 and start the gang again on the rest.
inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;         // training itself went wrong: no finite loss, ...
inline constexpr int kExitConfiguration = 2;  // what it was told can't work: it says why
inline constexpr int kExitPeerLost = 75;      // a peer died or hangs
inline constexpr int kExitStopped = 143;      // on request, after saving

// Trains by `options` and the environment that docs/environment.md names; prints on standard output
// (rank 0) and standard error. SIGTERM must be blocked in every thread: it is read where the ranks
// can agree on a step.
int Train(const TrainOptions& options);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_RUN_TRAIN_H_
