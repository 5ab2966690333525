// Stage: an equal part of a model's layers, for a rank of a pipeline, and of each layer's shards.
// The first has the embeddings as well, and the last ln_f and the head. A model of one stage is the
// whole.
//
// A stage of one shard owns a contiguous part of the model's array. The head is tied to the token
// embedding wte, which the first stage owns; the last holds a copy, behind what it owns.
//
// Shards divide a layer's heads and its MLP's width. Their number is the job's and decides the
// bits; how many ranks share them does not. Embeddings, LayerNorms, the head and the biases of what
// is summed over shards are whole on each rank. What shards divide lies shard by shard (shards.h).
#ifndef LOCKSTEP_WORKER_TRAINER_MODEL_STAGE_H_
#define LOCKSTEP_WORKER_TRAINER_MODEL_STAGE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "worker/trainer/model/shape.h"

namespace lockstep::trainer {

// Part `index` of `ranks` equal ones of a layer's `count` shards.
struct Shards {
  int index = 0;
  int ranks = 1;
  int count = 1;

  int mine() const { return count / ranks; }
  int first() const { return index * mine(); }
};

struct Stage {
  int index = 0;
  int count = 1;
  Shards shards = {};

  bool first() const { return index == 0; }
  bool last() const { return index == count - 1; }
  bool has_head_copy() const { return last() && !first(); }
  // Whether it is the model, in the order of the model's array.
  bool is_model() const { return count == 1 && shards.count == 1; }
};

// kInvalid, naming the numbers of stages that would do, where the layers can't be dealt out evenly.
Status CheckStages(const Shape& shape, int count);
// kInvalid, naming what would do, where so many shards can't be cut, or dealt out to so many ranks.
Status CheckShards(const Shape& shape, const Shards& shards);

int LayersOf(const Shape& shape, const Stage& stage);
// What the stage owns, with offsets from its beginning and the sizes of its own shards.
std::vector<Parameter> Parameters(const Shape& shape, const Stage& stage);
size_t OwnedCount(const Shape& shape, const Stage& stage);
// Where that begins in the whole model's array, of a stage of one shard.
size_t BeginOf(const Shape& shape, const Stage& stage);
// wte's elements: V C.
size_t HeadCount(const Shape& shape);
// What it owns, and the copy of wte.
size_t HeldCount(const Shape& shape, const Stage& stage);

// "stage 1 of 2 (layers 2 to 3 and the head)", counted from 0, and of several shards
// ", shards 2 to 3 of 4".
std::string ToString(const Shape& shape, const Stage& stage);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_MODEL_STAGE_H_
