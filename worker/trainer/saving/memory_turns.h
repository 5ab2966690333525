// MemoryTurns: which steps bring a checkpoint in memory, on all ranks alike: every so many as the
// job says, or at the pace that rank 0 finds (memory_pace.h).
#ifndef LOCKSTEP_WORKER_TRAINER_SAVING_MEMORY_TURNS_H_
#define LOCKSTEP_WORKER_TRAINER_SAVING_MEMORY_TURNS_H_

#include <cstdint>

#include "base/result.h"
#include "core/model/trainer.h"
#include "worker/trainer/collectives/collectives.h"
#include "worker/trainer/saving/memory_pace.h"
#include "worker/trainer/saving/saver.h"

namespace lockstep::trainer {

class MemoryTurns {
 public:
  // `step`: done before. `job` outlives this.
  MemoryTurns(const core::Trainer& job, int64_t step, Time now)
      : job_(&job), pace_(now), looked_(step), next_look_(step + 1) {}

  // After `step`, on all ranks. `saver`: rank 0's, null at others; `threads`: of this rank.
  Result<bool> IsDue(int64_t step, const Saver* saver, int threads,
                     collectives::Communicator& host);
  // A checkpoint was begun, for which training stood still.
  void OnSave(bool in_memory, Duration stall);
  // Training waited for its copy.
  void OnWaitForCopy(Duration stall);

 private:
  const core::Trainer* job_;
  MemoryPace pace_;
  int64_t looked_;  // the step of pace_'s last decision, and of its next
  int64_t next_look_;
  Duration stall_{};  // of the last one in memory
  bool copies_ = false;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_SAVING_MEMORY_TURNS_H_
