#include "worker/trainer/engine/batch_plan.h"

#include <string>

namespace lockstep::trainer {

namespace {

constexpr int64_t kFewest = 8;  // micro-batches a step, where the job leaves the choice to us

int64_t ChooseMicroBatch(int64_t global_batch, int64_t world) {
  for (int64_t micro = global_batch / kFewest; micro > 1; --micro) {
    if (global_batch % micro == 0 && global_batch / micro % world == 0) return micro;
  }
  return 1;
}

std::string Worlds(int64_t micro_batches, int64_t ranks) {
  constexpr int64_t kMostShown = 1024;
  std::string worlds;
  for (int64_t world = 1; world <= micro_batches && world <= kMostShown; ++world) {
    if (micro_batches % world != 0) continue;
    if (!worlds.empty()) worlds += ", ";
    worlds += std::to_string(world * ranks);
  }
  return worlds;
}

}  // namespace

Result<BatchPlan> PlanBatches(int64_t global_batch, int64_t micro_batch, int rank, int world,
                              int ranks) {
  const int pipelines = world / ranks;
  if (global_batch < 1) return Error::Invalid("the global batch must have at least one sequence");
  if (micro_batch == 0) micro_batch = ChooseMicroBatch(global_batch, pipelines);
  if (micro_batch < 0 || global_batch % micro_batch != 0) {
    return Error::Invalid("a global batch of " + std::to_string(global_batch) +
                          " sequences is not a multiple of the micro-batch of " +
                          std::to_string(micro_batch));
  }
  const int64_t count = global_batch / micro_batch;
  if (count % pipelines != 0) {
    return Error::Invalid(
        std::to_string(count) + " micro-batches of " + std::to_string(micro_batch) +
        " cannot be divided evenly among " + std::to_string(world) + " processes" +
        (ranks > 1 ? " in pipelines of " + std::to_string(ranks) : "") + "; run it with " +
        Worlds(count, ranks) + " processes, or choose another global batch");
  }
  BatchPlan plan;
  plan.global_batch = global_batch;
  plan.micro_batch = static_cast<int>(micro_batch);
  plan.count = static_cast<int>(count);
  plan.mine = static_cast<int>(count / pipelines);
  plan.first = plan.mine * (rank / ranks);
  return plan;
}

}  // namespace lockstep::trainer
