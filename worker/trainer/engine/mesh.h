// Mesh: which rank of a world trains what. A pipeline is `stages` stages of `tensor` ranks each,
// next to each other, so that a machine's ranks are neighbours: a stage's ranks share the shards of
// its layers. Pipelines are copies of each other and share the micro-batches of a step. Plain data
// parallel is a mesh of one stage and one rank.
//
//   rank = (pipeline * stages + stage) * tensor + part
#ifndef LOCKSTEP_WORKER_TRAINER_ENGINE_MESH_H_
#define LOCKSTEP_WORKER_TRAINER_ENGINE_MESH_H_

#include <algorithm>

#include "base/result.h"
#include "core/model/trainer.h"
#include "worker/trainer/collectives/collectives.h"
#include "worker/trainer/model/stage.h"

namespace lockstep::trainer {

struct Mesh {
  int rank = 0;
  int world = 1;
  int stages = 1;
  int tensor = 1;
  int shards = 1;  // of each layer

  static Mesh Of(const core::Parallel& parallel, int rank, int world) {
    return {rank, world, parallel.pipeline, parallel.tensor, parallel.tensor_shards};
  }

  // Of a pipeline.
  int ranks() const { return stages * tensor; }
  int pipelines() const { return world / ranks(); }
  int pipeline() const { return rank / ranks(); }
  int part() const { return rank % tensor; }
  Stage stage() const { return StageOf(rank); }
  Stage StageOf(int of) const { return StageOf(of / tensor % stages, of % tensor); }
  Stage StageOf(int stage, int part) const { return {stage, stages, {part, tensor, shards}}; }
  // Of this rank's own pipeline, with this rank's part of the shards.
  int RankOf(int stage) const { return RankOf(stage, part()); }
  int RankOf(int stage, int part) const { return pipeline() * ranks() + stage * tensor + part; }
  // All that train the same shards of the same stage.
  collectives::RankGroup Copies() const { return {rank % ranks(), ranks(), pipelines()}; }
  // All that share the shards of this rank's stage.
  collectives::RankGroup Peers() const { return {rank - part(), 1, tensor}; }
};

// kInvalid, with what would do: layers, heads or a world that can't be cut so, or a job that adds
// up otherwise than a pipeline's copies do.
Status CheckMesh(const core::Trainer& job, const Shape& shape, const Mesh& mesh);

// Micro-batches that a stage holds at a time, of the `mine` that its pipeline has a step: as many
// as go forward before the first comes back (one forward, one backward: 1F1B).
inline int HeldMicroBatches(const Stage& stage, int mine) {
  return std::min(stage.count - stage.index, mine);
}

// Gradients of the head that a last stage holds where they are sent only when the first can take
// them, without anything else waiting meanwhile: behind those of so many later micro-batches, less
// one. By then the first has gone forward with all that the last has, and where backward takes
// twice as long as forward it is just about to go backward with that micro-batch.
inline int HeldHeads(const Stage& stage, int mine) {
  return std::min(std::max(2 * (stage.count - 2) / 3, 0) + 1, mine);
}

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_ENGINE_MESH_H_
