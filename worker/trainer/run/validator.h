// Validator: the loss on held-out data, which no step is made of. All ranks compute it together,
// micro-batches of the training's size dealt out to the pipelines, and add it up in the order of
// the data: its bits are the same for every world and pipeline whose micro-batches are alike, and
// those of training are the same with and without it.
//
//   Result<Validator> validator = Validator::Open(job, shape, batch.micro_batch);
//   if (validator->IsDue(step)) Result<Validation> done = validator->Run(step, engine, mesh, host);
#ifndef LOCKSTEP_WORKER_TRAINER_RUN_VALIDATOR_H_
#define LOCKSTEP_WORKER_TRAINER_RUN_VALIDATOR_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/model/trainer.h"
#include "worker/trainer/collectives/collectives.h"
#include "worker/trainer/data/dataset.h"
#include "worker/trainer/engine/engine.h"
#include "worker/trainer/engine/mesh.h"
#include "worker/trainer/model/shape.h"
#include "worker/trainer/report/step_record.h"

namespace lockstep::trainer {

class Validator {
 public:
  // Reads all that will be validated on once, so that what is wrong with it is known before
  // training begins: as of Dataset::Open and Read. kInvalid as well: less than a micro-batch.
  static Result<Validator> Open(const core::Trainer& job, const Shape& shape, int micro_batch);

  // After so many steps.
  bool IsDue(int64_t step) const {
    return step == steps_ || (every_ > 0 && step > 0 && step % every_ == 0);
  }
  // As of Dataset.
  std::string Fingerprint() const { return data_.Fingerprint(); }
  // validationSamples, or what the data have, in whole micro-batches.
  int64_t sequences() const { return int64_t{micro_batches_} * micro_batch_; }

  // Called on all ranks. `alive` is called before each of this rank's micro-batches. An error ends
  // the run.
  Result<Validation> Run(int64_t step, Engine& engine, const Mesh& mesh,
                         collectives::Communicator& host, const std::function<void()>& alive) const;

 private:
  Validator(const core::Trainer& job, const Shape& shape, int micro_batch, Dataset data);

  Status Read(int index, std::span<int32_t> inputs, std::span<int32_t> targets) const;
  Status CheckTokens() const;

  int64_t every_;
  int64_t steps_;
  int micro_batch_;
  size_t tokens_;  // a sequence
  Dataset data_;
  int micro_batches_;
};

// A file that `job` trains on and validates on as well; empty: none.
std::string TrainedOnAndHeldOut(const core::Trainer& job);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_RUN_VALIDATOR_H_
