// Stage: an equal part of a model's layers, for a rank of a pipeline. The first has the embeddings
// as well, and the last ln_f and the head. A model of one stage is the whole.
//
// A stage owns a contiguous part of the model's array. The head is tied to the token embedding wte,
// which the first stage owns; the last holds a copy, behind what it owns.
#ifndef LOCKSTEP_WORKER_TRAINER_MODEL_STAGE_H_
#define LOCKSTEP_WORKER_TRAINER_MODEL_STAGE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "worker/trainer/model/shape.h"

namespace lockstep::trainer {

struct Stage {
  int index = 0;
  int count = 1;

  bool first() const { return index == 0; }
  bool last() const { return index == count - 1; }
  bool has_head_copy() const { return last() && !first(); }
};

// kInvalid, naming the numbers of stages that would do, where the layers can't be dealt out evenly.
Status CheckStages(const Shape& shape, int count);

int LayersOf(const Shape& shape, const Stage& stage);
// What the stage owns, with offsets from its beginning.
std::vector<Parameter> Parameters(const Shape& shape, const Stage& stage);
size_t OwnedCount(const Shape& shape, const Stage& stage);
// Where that begins in the whole model's array.
size_t BeginOf(const Shape& shape, const Stage& stage);
// wte's elements: V C.
size_t HeadCount(const Shape& shape);
// What it owns, and the copy of wte.
size_t HeldCount(const Shape& shape, const Stage& stage);

// "stage 1 of 2 (layers 2 to 3 and the head)", counted from 0.
std::string ToString(const Shape& shape, const Stage& stage);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_MODEL_STAGE_H_
