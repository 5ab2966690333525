// MemoryPace: how often rank 0 makes a checkpoint in memory where the job does not say: as often as
// they cost kMostMemoryCost of the time.
#ifndef LOCKSTEP_WORKER_TRAINER_SAVING_MEMORY_PACE_H_
#define LOCKSTEP_WORKER_TRAINER_SAVING_MEMORY_PACE_H_

#include <cstdint>

#include "base/time.h"

namespace lockstep::trainer {

inline constexpr double kMostMemoryCost = 0.02;

class MemoryPace {
 public:
  // All ranks get it from rank 0, so that they do alike.
  struct Decision {
    int64_t save = 0;  // 1: now
    int64_t look = 1;  // steps until the next decision
  };

  explicit MemoryPace(Time now) : last_look_(now) {}

  // After `steps` more steps. `cost`: of the last one, 0 before it is known; `busy`: a checkpoint
  // is being written.
  Decision Decide(Time now, int64_t steps, Duration cost, bool busy);

 private:
  Time last_look_;
  Time last_save_ = Time::min();
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_SAVING_MEMORY_PACE_H_
