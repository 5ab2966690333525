#include "worker/trainer/run/memory_plan.h"

#include <sys/resource.h>

#include <cstdio>

#include "worker/trainer/engine/gradient_tree.h"

namespace lockstep::trainer {

namespace {

std::string Megabytes(size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

}  // namespace

MemoryPlan PlanMemory(const Shape& shape, const BatchPlan& batch, Precision precision,
                      bool writes_checkpoints) {
  MemoryPlan plan;
  plan.parameters = ParameterCount(shape) * sizeof(float);
  plan.gradients = plan.parameters * static_cast<size_t>(GradientTree::Arrays(batch.mine));
  plan.optimizer = 2 * plan.parameters;
  plan.activations = Gpt<float>::PredictActivationBytes(shape, batch.micro_batch, precision);
  if (writes_checkpoints) plan.checkpoint = plan.parameters + plan.optimizer;
  return plan;
}

std::string ToString(const MemoryPlan& plan) {
  return Megabytes(plan.sum()) + " of memory: parameters " + Megabytes(plan.parameters) +
         ", gradients " + Megabytes(plan.gradients) + ", optimizer " + Megabytes(plan.optimizer) +
         ", activations " + Megabytes(plan.activations) + ", checkpoint's copy " +
         Megabytes(plan.checkpoint);
}

size_t PeakResidentBytes() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<size_t>(usage.ru_maxrss) * 1024;
}

}  // namespace lockstep::trainer
