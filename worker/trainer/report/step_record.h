// StepRecord: the figures of a step, and their forms: a line for people, numbers for the agent and
// TensorBoard.
#ifndef LOCKSTEP_WORKER_TRAINER_REPORT_STEP_RECORD_H_
#define LOCKSTEP_WORKER_TRAINER_REPORT_STEP_RECORD_H_

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"

namespace lockstep::trainer {

// The loss on held-out data after a step.
struct Validation {
  int64_t step = 0;
  double loss = 0;  // mean over the sequences
  int64_t sequences = 0;
  Duration took{};

  double perplexity() const { return std::exp(loss); }
};

// Tokens a second of one rank: in training beside the others, and alone.
struct Scaling {
  double together = 0;
  double alone = 0;

  double efficiency() const { return together / alone; }
};

struct StepRecord {
  int64_t step = 0;  // done, this one among them
  int64_t total_steps = 0;
  double loss = 0;
  double learning_rate = 0;
  double gradient_norm = 0;
  int64_t skipped = 0;     // so far
  int64_t my_tokens = 0;   // of this rank, in this step
  int64_t all_tokens = 0;  // of all ranks
  double flops_per_token = 0;
  double peak_flops = 0;  // of this rank's GPU, a second; 0: not known
  // This rank has a stage of a pipeline: it waits for its neighbours, which says nothing of who is
  // slow, so `exposed` goes by another name.
  bool pipeline = false;

  // Where this rank's time went. `exposed`: waiting for communication that backward didn't hide.
  Duration data{};
  Duration forward{};
  Duration backward{};
  Duration exposed{};
  Duration optimizer{};
  Duration checkpoint{};  // the stall, not the writing beside training
  Duration whole{};
  Duration checkpoint_write{};  // of the last checkpoint, until it was committed; of rank 0
  Duration loaded{};            // for the checkpoint, before the first step; else zero

  // After this step. Its time is not in `whole`, and so in no rate.
  std::optional<Validation> validation{};

  // Of rank 0, where it is measured: over the steps so far.
  std::optional<Scaling> scaling{};
};

using Numbers = std::vector<std::pair<std::string_view, double>>;

// "step 120/1000  loss 2.9812  lr 3.0e-04  norm 0.81  41 210 tokens/s  99 ms (3 ms waiting)", with
// "38.1 % MFU" before the time where the peak is known.
std::string Line(const StepRecord& record);
// "validation after step 120: loss 2.9812, perplexity 19.71 (256 sequences, 812 ms)"
std::string Line(const Validation& validation);
// "scaling efficiency 0.93: 12300 tokens/s a rank, 13200 alone"
std::string Line(const Scaling& scaling);
// As programs report to the agent: step, total_steps, loss, tokens, ... and the rest by name.
Numbers ForAgent(const StepRecord& record);
// Of a step whose own figures are told already: without it, since it is no progress.
Numbers ForAgent(const Validation& validation);
// ForAgent() as one line of JSON.
std::string Json(const StepRecord& record);
// With the step.
std::string Json(const Validation& validation);
// "train/loss", "time/forward_seconds", "validation/loss", ...
Numbers ForTensorBoard(const StepRecord& record);
Numbers ForTensorBoard(const Validation& validation);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_REPORT_STEP_RECORD_H_
