// AdamW with decoupled decay, warm-up and cosine, and clipping by the global norm. All in fixed
// blocks: the bits do not depend on the number of threads.
#ifndef LOCKSTEP_WORKER_TRAINER_MODEL_ADAMW_H_
#define LOCKSTEP_WORKER_TRAINER_MODEL_ADAMW_H_

#include <cstdint>
#include <span>
#include <vector>

#include "worker/trainer/model/kernels.h"
#include "worker/trainer/model/shape.h"
#include "worker/trainer/process/parallel.h"

namespace lockstep::trainer {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  // of parameters with decays
};

// Linear from 0 over `warmup` steps, then a cosine down to a tenth of `peak` at step `decay`, then
// that. `step` counts from 1.
double LearningRate(int64_t step, double peak, int64_t warmup, int64_t decay);

// sum of x * x * scale * scale, in fixed blocks, summed as a balanced tree in double.
double SumOfSquares(std::span<const float> values, double scale, Threads& threads);

// Elements that are updated alike: part of one parameter.
struct Piece {
  size_t first;
  size_t size;
  bool decays;
};

// `layout`'s elements in order, cut at the ends of parameters and their shards and, within them,
// into blocks of 16,384. So pieces of a model's stages, one behind the other, are the model's.
std::vector<Piece> PiecesOf(std::span<const Parameter> layout);

// sum of x * x of each of these pieces of `values`.
std::vector<double> SquaresOf(std::span<const Parameter> layout, std::span<const float> values,
                              Threads& threads);

// How many SquaresOf gives.
size_t PieceCount(std::span<const Parameter> layout);

// The sum as a balanced tree: of each half, then of both.
double TreeSum(std::span<const double> values);

// What step t multiplies by, of parameters that decay or not.
AdamWFactors<float> FactorsOf(int64_t t, double learning_rate, double scale, bool decays,
                              const AdamWOptions& options);

// One update of the parameters that lie at `first` and behind in the model's array; the four spans,
// of one size, hold just these. `layout`, Parameters() of the shape, says where decay applies. Step
// t counts from 1. Each gradient is used times `scale`, which carries the division by the number of
// micro-batches and the clipping. The bits of a parameter do not depend on how the array is cut.
void AdamWStep(std::span<const Parameter> layout, size_t first, std::span<float> parameters,
               std::span<const float> gradients, std::span<float> moment1, std::span<float> moment2,
               int64_t t, double learning_rate, double scale, const AdamWOptions& options,
               Threads& threads);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_MODEL_ADAMW_H_
