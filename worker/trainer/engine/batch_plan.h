// BatchPlan: which rank computes which micro-batches of a step. A step's micro-batches are numbered
// from 0; rank r of a world W has the r-th of W equal parts (of pipelines: pipeline r of W). Their
// number and content depend on the job alone, never on the world, so a job gives the same run on
// any world.
#ifndef LOCKSTEP_WORKER_TRAINER_ENGINE_BATCH_PLAN_H_
#define LOCKSTEP_WORKER_TRAINER_ENGINE_BATCH_PLAN_H_

#include <cstdint>

#include "base/result.h"

namespace lockstep::trainer {

struct BatchPlan {
  int64_t global_batch = 0;  // sequences a step
  int micro_batch = 0;       // sequences at a time
  int count = 0;             // micro-batches a step: global_batch / micro_batch
  int first = 0;             // this rank's first one
  int mine = 0;              // and how many it has

  // Where in the row of sequences micro-batch `first + i` of a step begins that begins at `cursor`.
  int64_t SampleOf(int64_t cursor, int i) const {
    return cursor + static_cast<int64_t>(first + i) * micro_batch;
  }
};

// micro_batch 0: chosen, as the largest that leaves at least eight micro-batches a step and is
// dealt out evenly; so worlds of 1, 2, 4 and 8 choose the same. kInvalid names the worlds that
// would do. Micro-batches are dealt to pipelines of `ranks` ranks, which share a model.
Result<BatchPlan> PlanBatches(int64_t global_batch, int64_t micro_batch, int rank, int world,
                              int ranks = 1);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_ENGINE_BATCH_PLAN_H_
