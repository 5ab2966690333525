// MemoryPlan: the memory that a training process will take.
#ifndef LOCKSTEP_WORKER_TRAINER_RUN_MEMORY_PLAN_H_
#define LOCKSTEP_WORKER_TRAINER_RUN_MEMORY_PLAN_H_

#include <cstddef>
#include <functional>
#include <string>

#include "worker/trainer/engine/batch_plan.h"
#include "worker/trainer/engine/mesh.h"
#include "worker/trainer/model/gpt.h"

namespace lockstep::trainer {

struct MemoryPlan {  // bytes
  size_t parameters = 0;
  size_t gradients = 0;  // one array, and one a level of the tree of this rank's micro-batches
  size_t optimizer = 0;  // two moments
  size_t activations = 0;
  size_t checkpoint = 0;  // of rank 0: the copy that is written while training goes on; and where
                          // ranks have a stage each, the whole model's state
  size_t posted = 0;      // of a stage: copies on their way to others

  size_t sum() const {
    return parameters + gradients + optimizer + activations + checkpoint + posted;
  }
};

// `batch`: as its stage's rank has it; `writes_checkpoints` says something of rank 0 alone.
MemoryPlan PlanMemory(const Shape& shape, const BatchPlan& batch, Precision precision,
                      bool writes_checkpoints, const Stage& stage = {});

// "41 MB of parameters, 123 MB of gradients (3 arrays), ...: 412 MB".
std::string ToString(const MemoryPlan& plan);

// What `memory_of` says of a whole model; or a line that says what a mesh is, and what it says of
// each rank of a pipeline.
std::string TellMesh(const Shape& shape, const Mesh& mesh,
                     const std::function<std::string(const Mesh& rank)>& memory_of);

// The most this process has held, or 0 where the kernel doesn't say.
size_t PeakResidentBytes();

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_RUN_MEMORY_PLAN_H_
