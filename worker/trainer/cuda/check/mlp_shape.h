// The test model: target ~ tanh(x W1^T + b1) W2^T + b2, by least squares. Its parameters, and its
// gradients, lie in one flat array in the order in which backward finishes them, so that a prefix
// can be reduced while the rest is computed:
//
//   w2[out][hidden] b2[out] | w1[hidden][in] b1[hidden]
//   bucket 0                | bucket 1
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_CHECK_MLP_SHAPE_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_CHECK_MLP_SHAPE_H_

#include <cstdint>
#include <vector>

namespace lockstep::trainer {

struct MlpShape {
  unsigned in = 24;
  unsigned hidden = 96;
  unsigned out = 8;

  // Where each begins, in floats.
  unsigned w2() const { return 0; }
  unsigned b2() const { return out * hidden; }
  unsigned w1() const { return b2() + out; }
  unsigned b1() const { return w1() + hidden * in; }
  unsigned parameters() const { return b1() + hidden; }
};

// `rows` examples of a smooth function, the same for the same `first` row: x[rows][in] and
// target[rows][out].
struct MlpBatch {
  unsigned rows = 0;
  std::vector<float> x;
  std::vector<float> target;
};
MlpBatch MakeMlpBatch(const MlpShape& shape, uint64_t first, unsigned rows);

// Small numbers for parameters; the same for the same seed.
std::vector<float> MakeMlpParameters(const MlpShape& shape, uint64_t seed);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_CHECK_MLP_SHAPE_H_
