// What a training run is told, by its command line and its environment.
#ifndef LOCKSTEP_WORKER_TRAINER_RUN_OPTIONS_H_
#define LOCKSTEP_WORKER_TRAINER_RUN_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "worker/collectives/connect.h"
#include "worker/trainer/model/gpt.h"
#include "worker/trainer/model/shape.h"

namespace lockstep::trainer {

enum class SyncKind : uint8_t { kAllReduce, kParameterServer };

struct TrainOptions {
  std::string model = "nano";  // a preset; empty: the sizes
  Shape sizes;
  std::vector<std::string> data;
  int64_t steps = 1000;
  int64_t global_batch = 16;
  int64_t micro_batch = 0;  // 0: chosen
  int sequence_length = 128;

  double learning_rate = 3e-4;
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;  // 0: steps
  double weight_decay = 0.1;
  double clip = 1.0;
  int64_t seed = 1337;
  Precision precision = Precision::kFp32;
  int max_skipped = 10;  // steps in a row whose loss was no number

  SyncKind sync = SyncKind::kAllReduce;
  std::vector<int> servers = {0};
  collectives::Algorithm reduce = collectives::Algorithm::kTree;
  int64_t bucket_mb = 25;
  bool overlap = true;
  int64_t compare_every = 100;  // steps between comparisons of the replicas; 0: never

  std::string checkpoint_dir;  // without an agent
  std::string resume = "auto";
  int64_t checkpoint_every = 100;  // 0: only the last
  int keep = 3;
  std::string metrics;      // a file for a JSON line a step; empty: none
  std::string tensorboard;  // empty: below the checkpoints; "none": not

  int threads = 0;  // 0: OMP_NUM_THREADS, else all cores
  int64_t log_every = 10;
  double collective_timeout = 120;  // seconds
};

// Threads to use: `asked`, else OMP_NUM_THREADS, else what this process may run on.
int ThreadCount(int asked);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_RUN_OPTIONS_H_
