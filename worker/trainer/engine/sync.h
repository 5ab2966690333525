// How the ranks make one step of all their gradients. Two ways: AllReduce (every rank has the whole
// sum and makes the whole step; all_reduce.h) and ParameterServer (some ranks make it for parts and
// hand the new parameters round; parameter_server.h).
//
//   way->Begin(gradients_and_tail);
//   tree.Sum(leaf, [&](size_t from) { way->Ready(from); });
//   Result<StepResult> step = way->Finish(step_options);
#ifndef LOCKSTEP_WORKER_TRAINER_ENGINE_SYNC_H_
#define LOCKSTEP_WORKER_TRAINER_ENGINE_SYNC_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "core/model/trainer.h"
#include "worker/trainer/collectives/collectives.h"
#include "worker/trainer/engine/replica.h"
#include "worker/trainer/model/adamw.h"
#include "worker/trainer/process/parallel.h"

namespace lockstep::trainer {

// Values that follow the gradient in its buffer and are summed with it.
enum Tail : uint8_t {
  kTailLoss,  // the sum of the micro-batches' losses
  kTailStop,  // how many ranks were asked to stop
  kTailSize,
};

struct StepOptions {
  int micro_batches = 1;  // of all ranks: what the sum is divided by
  int64_t t = 1;          // of AdamW
  double learning_rate = 0;
  double clip = 0;  // 0: off
  AdamWOptions adamw;
  bool stop = false;  // this rank was asked to stop
  // Called before the step writes the replica; by no engine whose steps leave it alone.
  std::function<void()> before_update;
};

// Of this rank's micro-batches.
struct StepTimes {
  Duration data{};
  Duration forward{};
  Duration backward{};
};

struct StepResult {
  double loss = 0;  // mean over the step's micro-batches
  double gradient_norm = 0;
  bool skipped = false;  // the loss or the norm was no finite number, on all ranks alike
  bool stop = false;     // some rank was asked to stop, and all know it
  Duration waited{};     // for communication that backward didn't hide
  Duration updating{};   // within the optimizer
  StepTimes times;
};

class Sync {
 public:
  virtual ~Sync() = default;

  // `sum`, of parameters and tail, is about to be filled from its end.
  virtual void Begin(std::span<float> sum) = 0;
  virtual void Ready(size_t from) = 0;
  // Called after Ready(0). Updates the replica on every rank.
  virtual Result<StepResult> Finish(const StepOptions& options) = 0;

  // Makes rank 0's copy of the moments whole, for a checkpoint; called on all ranks.
  virtual Status GatherMoments() = 0;
  // Whether every rank holds all moments.
  virtual bool HasAllMoments() const = 0;
};

struct SyncOptions {
  size_t bucket_bytes = size_t{25} << 20;
  bool overlap = true;           // of the allreduce with backward
  std::vector<int> servers;      // of the parameter server: ranks
  core::Parallel parallel = {};  // of an allreduce: how ranks share a model
};

std::unique_ptr<Sync> MakeAllReduceSync(Replica& replica, collectives::Communicator& all,
                                        Threads& threads, const SyncOptions& options);
// kInvalid: a server that is no rank, or the same one twice.
Result<std::unique_ptr<Sync>> MakeParameterServerSync(Replica& replica,
                                                      collectives::Communicator& all,
                                                      Threads& threads, const SyncOptions& options);

// Common to both ways: the scale of the summed gradient, from its norm.
struct Scale {
  double norm = 0;   // of the mean gradient
  double value = 0;  // what each sum is multiplied by: 1 / micro-batches, and the clipping
  bool finite = true;
};
Scale ScaleOf(double sum_of_squares, double loss, const StepOptions& options);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_ENGINE_SYNC_H_
