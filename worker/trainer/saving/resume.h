// The state a run begins with: rank 0 reads or makes it, and every rank gets a copy.
#ifndef LOCKSTEP_WORKER_TRAINER_SAVING_RESUME_H_
#define LOCKSTEP_WORKER_TRAINER_SAVING_RESUME_H_

#include <cstdint>
#include <string>

#include "worker/trainer/collectives/collectives.h"
#include "worker/trainer/engine/replica.h"
#include "worker/trainer/saving/checkpoint_line.h"

namespace lockstep::trainer {

// How far training was.
struct Position {
  int64_t step = 0;
  int64_t cursor = 0;           // sequences consumed
  int64_t optimizer_steps = 0;  // t of AdamW
  int64_t skipped = 0;
  int64_t validated = 0;  // the last step that was
};

// Fills `replica`, of its rank's stage, on every rank, and `whole`, which is null but at rank 0 of
// a mesh of several stages, from the newest checkpoint of `line` that can be read, or anew
// from `expected.seed`. `expected` is what this run would write: where a checkpoint says otherwise
// in a way that ends bitwise equality (data, batch, instruction set, ...), rank 0 warns. Torn
// checkpoints are skipped with a warning; kInvalid when there are some and none can be used.
Result<Position> Resume(const CheckpointLine& line, const Manifest& expected, Replica& replica,
                        Replica* whole, const Mesh& mesh, collectives::Communicator& all,
                        Threads& threads);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_SAVING_RESUME_H_
