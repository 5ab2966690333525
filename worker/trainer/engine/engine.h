// Engine: what makes a rank's training steps: the model, the sum of its gradients, the optimizer.
// MakeCpuEngine's computes on this machine's processors, MakeCudaEngine's (cuda_engine.h) on a GPU.
//
//   Result<std::unique_ptr<Engine>> engine = MakeCpuEngine(options, replica, all, threads);
//   Result<StepResult> step = (*engine)->Step(step_options, read);
#ifndef LOCKSTEP_WORKER_TRAINER_ENGINE_ENGINE_H_
#define LOCKSTEP_WORKER_TRAINER_ENGINE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "core/model/trainer.h"
#include "worker/trainer/collectives/collectives.h"
#include "worker/trainer/engine/batch_plan.h"
#include "worker/trainer/engine/replica.h"
#include "worker/trainer/engine/sync.h"
#include "worker/trainer/model/gpt.h"

namespace lockstep::trainer {

// Fills the sequences of this rank's micro-batch `index` of the step: [B, T] each.
using ReadBatch =
    std::function<Status(int index, std::span<int32_t> inputs, std::span<int32_t> targets)>;

class Engine {
 public:
  virtual ~Engine() = default;

  // One step of all ranks. An error ends the run.
  virtual Result<StepResult> Step(const StepOptions& options, const ReadBatch& read) = 0;
  // The loss on micro-batch `index`, which `read` is asked for, of what the last step left: no step
  // notices. A stage of a pipeline does its part of it, and its last one has the loss; elsewhere it
  // is 0. All ranks ask for as many, where several share a stage's shards.
  virtual Result<float> Loss(int index, const ReadBatch& read) = 0;
  // Makes rank 0's replica of the whole model what the last step left; called on all ranks.
  virtual Status UpdateReplica() = 0;
  // Waits until nothing of a step that failed runs any more. `all` has gone.
  virtual Status Quiesce() = 0;
  // After Quiesce(), makes this rank's own replica what the last step that was done left. Without
  // EngineOptions::in_place it may be lost.
  virtual Status KeepReplica() = 0;
  // Of what every rank has the same of after the last step, wherever that lies.
  virtual Result<uint64_t> HashOfReplica() = 0;
};

struct EngineOptions {
  BatchPlan batch;
  Precision precision = Precision::kFp32;
  core::Sync sync = core::Sync::kAllReduce;
  SyncOptions sync_options;
  bool in_place = false;     // what a step left outlives the next one's failure
  Replica* whole = nullptr;  // rank 0's of the whole model, where ranks have a stage of it
  // For values in host memory, where that is not what ranks compute in.
  collectives::Communicator* host = nullptr;
};

// `replica`, `all` and `threads` outlive it; the steps write the replica itself. kInvalid: as of
// MakeParameterServerSync.
Result<std::unique_ptr<Engine>> MakeCpuEngine(const EngineOptions& options, Replica& replica,
                                              collectives::Communicator& all, Threads& threads);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_ENGINE_ENGINE_H_
