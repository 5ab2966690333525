// `lockstep-trainer train`: one rank of a data-parallel training run, from start to end.
#ifndef LOCKSTEP_WORKER_TRAINER_RUN_TRAIN_H_
#define LOCKSTEP_WORKER_TRAINER_RUN_TRAIN_H_

#include "worker/trainer/run/options.h"

namespace lockstep::trainer {

// Trains by `options` and the environment (docs/reference/environment.md); prints on standard
// output (rank 0) and standard error. The exit code: process/exit_code.h.
int Train(const TrainOptions& options);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_RUN_TRAIN_H_
