// A file that grew between two ranks' opening it would give them different sequences.
#ifndef LOCKSTEP_WORKER_TRAINER_RUN_SAME_DATA_H_
#define LOCKSTEP_WORKER_TRAINER_RUN_SAME_DATA_H_

#include <string>

#include "base/result.h"
#include "worker/trainer/collectives/collectives.h"

namespace lockstep::trainer {

// kInvalid names a rank whose `fingerprint` is not rank 0's. Called on all ranks.
Status CompareData(const std::string& fingerprint, collectives::Communicator& all);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_RUN_SAME_DATA_H_
