// Matrix products, each on the calling thread alone, row-major:
//
//   c[m, n] = op(a)[m, k] op(b)[k, n]  (+ c, with `add`)
//
// op(x) is x, or x transposed. Threads share a large product by its output, cut by its shape alone,
// so its bits do not depend on their number. fp32 and bf16 are oneDNN's, double is a plain loop.
#ifndef LOCKSTEP_WORKER_TRAINER_MODEL_PRODUCT_H_
#define LOCKSTEP_WORKER_TRAINER_MODEL_PRODUCT_H_

#include <cstddef>

#include "worker/trainer/model/bf16.h"

namespace lockstep::trainer {

template <typename A>
struct Operand {
  const A* data = nullptr;
  size_t stride = 0;  // elements from one row, as stored, to the next
  bool transposed = false;
};

template <typename T>
struct Output {
  T* data = nullptr;
  size_t stride = 0;
  bool add = false;
};

struct Size {
  size_t m = 0;
  size_t n = 0;
  size_t k = 0;
};

void Multiply(const Size& size, Operand<float> a, Operand<float> b, Output<float> c);
void Multiply(const Size& size, Operand<Bf16> a, Operand<Bf16> b, Output<float> c);
void Multiply(const Size& size, Operand<double> a, Operand<double> b, Output<double> c);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_MODEL_PRODUCT_H_
