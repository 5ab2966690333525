// How much of its speed a rank keeps beside others: its tokens a second in training, against those
// of rank 0 alone.
#ifndef LOCKSTEP_WORKER_TRAINER_RUN_SCALING_H_
#define LOCKSTEP_WORKER_TRAINER_RUN_SCALING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/result.h"
#include "base/time.h"
#include "core/model/trainer.h"
#include "worker/trainer/engine/engine.h"
#include "worker/trainer/engine/mesh.h"
#include "worker/trainer/report/step_record.h"

namespace lockstep::trainer {

// kInvalid where it can't be measured: a rank with a part of the model has no speed alone.
Status CheckScaling(const core::Trainer& job, const Mesh& mesh);

// What rank 0 makes its steps alone with.
struct LoneRank {
  const core::Trainer& job;
  Shape shape;
  BatchPlan batch;  // rank 0's part of a step of all ranks
  std::function<Result<std::unique_ptr<Engine>>(const EngineOptions&, Replica&,
                                                collectives::Communicator&)>
      make_engine;
  ReadBatch read;
  std::function<bool()> stopped;  // the run was asked to stop, which ends this early
};

// Called on all ranks, before any of them takes the memory of training: rank 0 makes a few steps of
// its own micro-batches, in a world of one, on a model that is thrown away, while the others wait.
// Rank 0 learns its tokens a second; 0: it was stopped. Other ranks learn 0.
Result<double> MeasureAlone(const LoneRank& lone, collectives::Communicator& host);

// Rank 0's steps of training, as far as they went. The first one, which finds nothing in its caches
// and connections that nobody used yet, does not count.
class ScalingMeter {
 public:
  explicit ScalingMeter(double alone) : alone_(alone) {}  // tokens/s, above 0

  void OnStep(const StepRecord& record);
  // None before the second step.
  std::optional<Scaling> scaling() const;

 private:
  double alone_;
  int64_t steps_ = 0;
  int64_t tokens_ = 0;  // of one rank
  Duration took_{};
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_RUN_SCALING_H_
