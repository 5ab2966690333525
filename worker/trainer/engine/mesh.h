// Mesh: which rank of a world trains what. Ranks stand in pipelines of `stages` ranks next to each
// other, so that a machine's ranks are neighbours; pipelines are copies of each other and share the
// micro-batches of a step. Plain data parallel is a mesh of one stage.
//
//   rank = pipeline * stages + stage
#ifndef LOCKSTEP_WORKER_TRAINER_ENGINE_MESH_H_
#define LOCKSTEP_WORKER_TRAINER_ENGINE_MESH_H_

#include <algorithm>

#include "base/result.h"
#include "core/model/trainer.h"
#include "worker/collectives/collectives.h"
#include "worker/trainer/model/stage.h"

namespace lockstep::trainer {

struct Mesh {
  int rank = 0;
  int world = 1;
  int stages = 1;

  int pipelines() const { return world / stages; }
  int pipeline() const { return rank / stages; }
  Stage stage() const { return StageOf(rank); }
  Stage StageOf(int of) const { return {of % stages, stages}; }
  // Of this rank's own pipeline.
  int RankOf(int stage) const { return pipeline() * stages + stage; }
  // All that train the same stage.
  collectives::RankGroup Copies() const { return {rank % stages, stages, pipelines()}; }
};

// kInvalid, with what would do: layers or a world that can't be cut into so many stages, or a job
// that adds up otherwise than a pipeline's copies do.
Status CheckMesh(const core::Trainer& job, const Shape& shape, const Mesh& mesh);

// Micro-batches that a stage holds at a time, of the `mine` that its pipeline has a step: as many
// as go forward before the first comes back (one forward, one backward: 1F1B).
inline int HeldMicroBatches(const Stage& stage, int mine) {
  return std::min(stage.count - stage.index, mine);
}

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_ENGINE_MESH_H_
