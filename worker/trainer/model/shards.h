// The two orders of a model's values: that of its array, as files have it, and that in which a
// stage holds its part, where what shards divide lies shard by shard:
//
//   [outer, shards, rest]  ->  shards of [outer, rest]
//
// So each shard's weights are contiguous, and its products are the same calls on every rank,
// whichever other shards that has. With one shard both orders are one.
#ifndef LOCKSTEP_WORKER_TRAINER_MODEL_SHARDS_H_
#define LOCKSTEP_WORKER_TRAINER_MODEL_SHARDS_H_

#include <span>
#include <vector>

#include "worker/trainer/model/shape.h"
#include "worker/trainer/model/stage.h"

namespace lockstep::trainer {

// Of the model's array `whole`, what the stage owns.
void TakePart(const Shape& shape, const Stage& stage, std::span<const float> whole,
              std::span<float> part);
// The other way round: the rest of `whole` stays.
void PutPart(const Shape& shape, const Stage& stage, std::span<const float> part,
             std::span<float> whole);

// What each of the ranks that share a stage's shards has of every piece of its layout (SquaresOf),
// [rank][pieces], in the order of all shards on one rank. What is whole on each is the first one's.
std::vector<double> JoinPieces(const Shape& shape, const Stage& stage,
                               const std::vector<std::span<const double>>& ranks);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_MODEL_SHARDS_H_
