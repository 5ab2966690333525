// `lockstep-trainer generate`: a trained model goes on from prompts. In a world of several ranks
// each takes an equal part of them, and rank 0 prints all results in the prompts' order.
#ifndef LOCKSTEP_WORKER_TRAINER_GENERATE_GENERATE_H_
#define LOCKSTEP_WORKER_TRAINER_GENERATE_GENERATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/model/trainer.h"
#include "worker/trainer/generate/sample.h"

namespace lockstep::trainer {

struct GenerateOptions {
  std::vector<std::string> prompts;  // texts
  std::vector<std::string> files;    // globs of files, a prompt a line
  std::string checkpoint;            // a folder; empty: LOCKSTEP_RESUME_DIR's
  std::string checkpoint_dir;        // or the newest in here
  int tokens = 200;                  // to add to each prompt
  SampleOptions sample{.temperature = 0.8, .top_k = 40};
  int64_t seed = 1337;  // prompt n is drawn with seed + n, whatever the world
  std::string output;   // a file for the results; empty: standard output
  bool json = false;    // {"prompt": ..., "text": ...} a line; always with files
  // Each rank's own choice: Auto takes a GPU where all that it takes is there, as in training.
  core::Device device = core::Device::kAuto;
  int threads = 0;  // as for training
};

// The exit code: run/train.h.
int Generate(const GenerateOptions& options);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_GENERATE_GENERATE_H_
