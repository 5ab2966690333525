// Setup: what a rank's part of a run is, checked and opened on this machine alone, before it meets
// another rank, so that a mistake is reported before anybody waits.
#ifndef LOCKSTEP_WORKER_TRAINER_RUN_SETUP_H_
#define LOCKSTEP_WORKER_TRAINER_RUN_SETUP_H_

#include <optional>

#include "base/result.h"
#include "core/model/trainer.h"
#include "worker/trainer/collectives/group/connect.h"
#include "worker/trainer/data/dataset.h"
#include "worker/trainer/engine/batch_plan.h"
#include "worker/trainer/engine/mesh.h"
#include "worker/trainer/model/shape.h"
#include "worker/trainer/run/placement.h"
#include "worker/trainer/run/validator.h"

namespace lockstep::trainer {

struct Setup {
  collectives::Options connection;
  Shape shape;
  Mesh mesh;
  BatchPlan batch;
  Placement place;
  Dataset data;
  std::optional<Validator> validator;  // none: nothing is held out

  // By `job` and this process's environment. kInvalid, kNotFound: what cannot be, and what to do.
  // `open`: as of Placement::Choose.
  static Result<Setup> Make(const core::Trainer& job, const Gpu* open);
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_RUN_SETUP_H_
