// What every rank holds a copy of, and how copies are made and compared.
#ifndef LOCKSTEP_WORKER_TRAINER_ENGINE_REPLICA_H_
#define LOCKSTEP_WORKER_TRAINER_ENGINE_REPLICA_H_

#include <cstdint>
#include <vector>

#include "worker/collectives/collectives.h"
#include "worker/trainer/checkpoint/checkpoint.h"
#include "worker/trainer/model/shape.h"
#include "worker/trainer/parallel.h"

namespace lockstep::trainer {

// Flat, as Parameters(shape) arranges them.
struct Replica {
  explicit Replica(const Shape& model);

  TrainingState state() { return {parameters, moment1, moment2}; }
  ConstTrainingState state() const { return {parameters, moment1, moment2}; }

  Shape shape;
  std::vector<Parameter> layout;
  std::vector<float> parameters;
  std::vector<float> moment1;  // AdamW's exp_avg
  std::vector<float> moment2;  // and exp_avg_sq
};

// Rank 0's copy goes to all, and is compared.
Status BroadcastReplica(Replica& replica, collectives::Communicator& all, Threads& threads);

// kInternal names the ranks whose hash of their replica differs from most others'.
Status CompareReplicas(uint64_t hash, collectives::Communicator& all);

// `with_moments`: a parameter server keeps moments where they are used only.
uint64_t HashOf(const Replica& replica, bool with_moments, Threads& threads);
// A hash of the bits of `values`, the same for any number of threads: of blocks, which are mixed.
uint64_t HashOf(std::span<const float> values, Threads& threads);
uint64_t MixHashes(std::span<const uint64_t> hashes);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_ENGINE_REPLICA_H_
