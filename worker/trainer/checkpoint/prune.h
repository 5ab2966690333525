// Keeps the last checkpoints of a run.
#ifndef LOCKSTEP_WORKER_TRAINER_CHECKPOINT_PRUNE_H_
#define LOCKSTEP_WORKER_TRAINER_CHECKPOINT_PRUNE_H_

#include <string>
#include <vector>

namespace lockstep::trainer {

// Removes all but the last `keep` of `folders`, which are in the order of their making: the files
// that their manifest lists, and it last, so that what a crash leaves is torn for a reader, and
// removed the next time. What has no manifest of Lockstep's, and what somebody put beside those
// files, stays; so does what can't be removed, until the next time.
void Prune(const std::vector<std::string>& folders, int keep);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CHECKPOINT_PRUNE_H_
