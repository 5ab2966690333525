#include "worker/trainer/run/memory_plan.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>

#include "worker/trainer/engine/gradient_tree.h"

namespace lockstep::trainer {

namespace {

std::string Megabytes(size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

// The copies that Communicator::Post makes, of which as many as there are stages lie for each
// neighbour: they are awaited at the end of a step, and where there would be one more.
size_t PostedBytes(const Shape& shape, const BatchPlan& batch, const Stage& stage) {
  // Of two stages the last has one neighbour for both of its gradients, which take turns.
  const int places = stage.has_head_copy() && stage.index == 1 ? 1 : stage.count;
  const auto most = static_cast<size_t>(std::min(places, batch.mine));
  const size_t values = static_cast<size_t>(batch.micro_batch) *
                        static_cast<size_t>(shape.context) * static_cast<size_t>(shape.width);
  size_t bytes = 0;
  if (!stage.last()) bytes += values * sizeof(float);   // activations
  if (!stage.first()) bytes += values * sizeof(float);  // their gradient
  if (stage.has_head_copy()) bytes += HeadCount(shape) * sizeof(float);
  return most * bytes;
}

}  // namespace

MemoryPlan PlanMemory(const Shape& shape, const BatchPlan& batch, Precision precision,
                      bool writes_checkpoints, const Stage& stage) {
  const size_t owned = OwnedCount(shape, stage) * sizeof(float);
  const size_t state = 3 * ParameterCount(shape) * sizeof(float);
  MemoryPlan plan;
  plan.parameters = HeldCount(shape, stage) * sizeof(float);
  plan.gradients = owned * static_cast<size_t>(GradientTree::Arrays(batch.mine));
  plan.optimizer = 2 * owned;
  plan.activations = Gpt<float>::PredictActivationBytes(shape, batch.micro_batch, precision, stage,
                                                        HeldMicroBatches(stage, batch.mine));
  if (writes_checkpoints) plan.checkpoint = state;
  if (stage.first() && stage.shards.index == 0 && !stage.is_model()) {
    plan.checkpoint += state;
    // An array of another rank's, while it is gathered.
    if (stage.shards.count > 1 && stage.count * stage.shards.ranks > 1) plan.checkpoint += owned;
  }
  plan.posted = PostedBytes(shape, batch, stage);
  return plan;
}

std::string ToString(const MemoryPlan& plan) {
  return Megabytes(plan.sum()) + " of memory: parameters " + Megabytes(plan.parameters) +
         ", gradients " + Megabytes(plan.gradients) + ", optimizer " + Megabytes(plan.optimizer) +
         ", activations " + Megabytes(plan.activations) + ", checkpoint's copy " +
         Megabytes(plan.checkpoint) +
         (plan.posted == 0 ? "" : ", posted copies " + Megabytes(plan.posted));
}

std::string TellMesh(const Shape& shape, const Mesh& mesh,
                     const std::function<std::string(const Mesh& rank)>& memory_of) {
  if (mesh.stage().is_model()) return memory_of(mesh);
  std::string text = "mesh: " + std::to_string(mesh.pipelines()) + " pipelines of " +
                     std::to_string(mesh.stages) + " stages";
  if (mesh.shards > 1) {
    text += " of " + std::to_string(mesh.tensor) + " ranks, " + std::to_string(mesh.shards) +
            " shards a layer";
  }
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    Mesh of = mesh;
    of.rank = rank;
    text += "\n" + ToString(shape, of.stage()) + ": " + memory_of(of);
  }
  return text;
}

size_t PeakResidentBytes() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<size_t>(usage.ru_maxrss) * 1024;
}

}  // namespace lockstep::trainer
