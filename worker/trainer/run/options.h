// What a training run is told, by its command line and its environment.
#ifndef LOCKSTEP_WORKER_TRAINER_RUN_OPTIONS_H_
#define LOCKSTEP_WORKER_TRAINER_RUN_OPTIONS_H_

#include <cstdint>
#include <string>

#include "base/result.h"
#include "core/model/trainer.h"
#include "worker/trainer/model/shape.h"

namespace lockstep::trainer {

struct TrainOptions {
  core::Trainer job;       // what a job can say as well
  core::ModelShape sizes;  // by --layers and the like

  int max_skipped = 10;         // steps in a row whose loss was no number
  int64_t compare_every = 100;  // steps between comparisons of the replicas; 0: never

  std::string checkpoint_dir;  // without an agent
  std::string resume = "auto";
  int keep = 3;
  std::string metrics;      // a file for a JSON line a step; empty: none
  std::string tensorboard;  // empty: below the checkpoints; "none": not

  int threads = 0;  // 0: OMP_NUM_THREADS, else all cores
  int64_t log_every = 10;
  double collective_timeout = 120;  // seconds
};

// The model that the job names or gives the sizes of. kInvalid: none such.
Result<Shape> ShapeOf(const core::Trainer& job);

// Threads to use: `asked`, else OMP_NUM_THREADS, else what this process may run on.
int ThreadCount(int asked);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_RUN_OPTIONS_H_
