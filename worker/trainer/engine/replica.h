// What every rank holds a copy of, and how copies are made and compared.
#ifndef LOCKSTEP_WORKER_TRAINER_ENGINE_REPLICA_H_
#define LOCKSTEP_WORKER_TRAINER_ENGINE_REPLICA_H_

#include <cstdint>
#include <span>
#include <vector>

#include "worker/trainer/checkpoint/checkpoint.h"
#include "worker/trainer/collectives/collectives.h"
#include "worker/trainer/engine/mesh.h"
#include "worker/trainer/model/shape.h"
#include "worker/trainer/process/parallel.h"

namespace lockstep::trainer {

// Flat, as Parameters(shape, stage) arranges them; `parameters` also has the last stage's copy of
// wte.
struct Replica {
  explicit Replica(const Shape& model, const Stage& of = {});

  TrainingState state() { return {parameters, moment1, moment2}; }
  ConstTrainingState state() const { return {parameters, moment1, moment2}; }

  // Gives the memory of the arrays back, while an engine has them elsewhere.
  void FreeArrays();
  // Makes them anew, of zeros.
  void AllocateArrays();

  std::span<float> owned() { return std::span(parameters).first(moment1.size()); }

  // The last stage's copy of wte.
  std::span<float> head() { return std::span(parameters).subspan(moment1.size()); }

  Shape shape;
  Stage stage;
  std::vector<Parameter> layout;
  std::vector<float> parameters;
  std::vector<float> moment1;  // AdamW's exp_avg
  std::vector<float> moment2;  // and exp_avg_sq
};

// The copy of rank `root` goes to all, and is compared.
Status BroadcastReplica(Replica& replica, collectives::Communicator& all, Threads& threads,
                        int root = 0);

// Rank 0's `whole`, in the order of the model's array, is dealt out to the ranks' stages, and their
// copies are compared. A mesh whose stages are all the model needs none.
Status DealReplica(const Replica* whole, Replica& part, const Mesh& mesh,
                   collectives::Communicator& all, Threads& threads);
// The other way round: rank 0's `whole` becomes what the stages of the first pipeline hold.
Status GatherReplica(const Replica& part, Replica* whole, const Mesh& mesh,
                     collectives::Communicator& all);

// kInternal names the ranks whose hash of their replica differs from most others' of those that
// stand at the same place in their pipelines, of `ranks` ranks each.
Status CompareReplicas(uint64_t hash, collectives::Communicator& all, int ranks = 1);

// `with_moments`: a parameter server keeps moments where they are used only.
uint64_t HashOf(const Replica& replica, bool with_moments, Threads& threads);
// A hash of the bits of `values`, the same for any number of threads: of blocks, which are mixed.
uint64_t HashOf(std::span<const float> values, Threads& threads);
uint64_t MixHashes(std::span<const uint64_t> hashes);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_ENGINE_REPLICA_H_
