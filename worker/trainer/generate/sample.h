// The next token, drawn from a model's logits.
//
//   Sampler sampler({.temperature = 0.8, .top_k = 40}, seed);
//   int32_t token = sampler.Next(decoder.Step(previous));
#ifndef LOCKSTEP_WORKER_TRAINER_GENERATE_SAMPLE_H_
#define LOCKSTEP_WORKER_TRAINER_GENERATE_SAMPLE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "worker/trainer/model/split_mix.h"

namespace lockstep::trainer {

struct SampleOptions {
  double temperature = 1;  // logits are divided by it; 0: always the likeliest token
  int top_k = 0;           // only the k likeliest tokens; 0: all
};

// Draws the same tokens from the same logits for one seed. Not thread-safe.
class Sampler {
 public:
  Sampler(const SampleOptions& options, uint64_t seed) : options_(options), random_(seed) {}

  // logits: [V], V > 0. Of equally likely tokens the lower comes first.
  int32_t Next(std::span<const float> logits);

 private:
  SampleOptions options_;
  SplitMix random_;
  std::vector<int32_t> tokens_;  // candidates, the likeliest first
  std::vector<double> weights_;  // theirs
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_GENERATE_SAMPLE_H_
