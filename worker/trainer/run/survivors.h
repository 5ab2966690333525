// What ranks that outlived a generation bring into the next one: no checkpoint is read where one of
// them has the state of the training.
#ifndef LOCKSTEP_WORKER_TRAINER_RUN_SURVIVORS_H_
#define LOCKSTEP_WORKER_TRAINER_RUN_SURVIVORS_H_

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "worker/trainer/collectives/collectives.h"
#include "worker/trainer/engine/replica.h"
#include "worker/trainer/report/step_record.h"
#include "worker/trainer/saving/resume.h"

namespace lockstep::trainer {

// A rank's state between two steps.
struct Kept {
  Replica replica;
  Position at;
  int64_t skipped_in_a_row = 0;
  bool stop = false;                      // that step is the last, as was asked
  std::optional<StepRecord> untold = {};  // that step's, if it was not reported
};

// Roll call of all ranks: the furthest that has state gives it to all, since a rank whose last
// exchange broke off may be a step behind. `mine` becomes it on every rank, once it is here whole.
// The rank that gave it; none: no rank has any.
Result<std::optional<int>> TakeFurthest(std::optional<Kept>& mine, const Shape& shape,
                                        collectives::Communicator& all, Threads& threads);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_RUN_SURVIVORS_H_
