// The kernels of a GPT between its matrix products. Each handles some rows, on the calling thread.
// They are compiled for several instruction sets; CpuKernels() picks the best that this CPU has.
//
// T is the type of sums and of what is kept (float, or double in tests), A that of the operands of
// matrix products (T, or Bf16).
#ifndef LOCKSTEP_WORKER_TRAINER_MODEL_KERNELS_H_
#define LOCKSTEP_WORKER_TRAINER_MODEL_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "worker/trainer/model/bf16.h"

namespace lockstep::trainer {

template <typename T>
struct LayerNormState {
  const T* weight;  // [C]
  const T* bias;    // [C]
  T* mean;          // [rows]
  T* rstd;          // [rows], 1 / sqrt(variance + 1e-5)
};

template <typename T>
struct AdamWBlock {
  T* parameters;       // [n]
  const T* gradients;  // [n]
  T* moment1;          // [n]
  T* moment2;          // [n]
};

// parameters *= keep; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2, g = gradient *
// scale; parameters -= rate m / (sqrt(v) root + epsilon).
template <typename T>
struct AdamWFactors {
  T keep;   // 1 - learning rate * weight decay, or 1
  T scale;  // of the gradients
  T beta1;
  T beta2;
  T rate;  // learning rate / (1 - beta1^t)
  T root;  // 1 / sqrt(1 - beta2^t)
  T epsilon;
};

template <typename T, typename A>
struct KernelTable {
  // y[rows, width] = (x - mean) rstd weight + bias; keeps mean and rstd.
  void (*layer_norm)(const T* x, const LayerNormState<T>& state, size_t rows, size_t width, A* y);

  // dx = residual + gradient with respect to x, of dy; residual may be null, and may be dx.
  // Adds to dweight[width] and dbias[width].
  void (*layer_norm_backward)(const T* dy, const T* x, const LayerNormState<T>& state, size_t rows,
                              size_t width, const T* residual, T* dx, T* dweight, T* dbias);

  // y = gelu(x), slope = gelu'(x), n elements; slope may be x. The tanh form.
  void (*gelu)(const T* x, size_t n, A* y, T* slope);

  // y = dy * slope, n elements; y may be dy.
  void (*scale_by)(const T* dy, const T* slope, size_t n, T* y);

  // x[row, :] = bias, of rows * width; and with `from`, from[row, :] + bias.
  void (*add_bias)(const T* from, const T* bias, size_t rows, size_t width, T* x);

  // sums[width] += the rows of x, summed first.
  void (*add_rows)(const T* x, size_t rows, size_t width, T* sums);

  // Rows of attention scores [rows, stride], of queries first, first + 1, ...: over keys 0 to the
  // query's own, p = softmax(scale * score), in place; 0 for keys up to `keys`. Keeps log_sum[row].
  void (*softmax)(T* scores, size_t rows, size_t stride, size_t keys, size_t first, T scale,
                  T* log_sum);

  // The same rows again, with dp: scores becomes p, and dp the gradient of the scores.
  void (*softmax_backward)(T* scores, T* dp, size_t rows, size_t stride, size_t keys, size_t first,
                           T scale, const T* log_sum);

  // logits[rows, width] becomes (softmax - 1{target}) * scale; losses[rows] the cross entropies.
  void (*cross_entropy)(T* logits, const int32_t* targets, size_t rows, size_t width, T scale,
                        T* losses);

  // y[rows, width] (stride y_stride) = x (stride x_stride), to the type of operands.
  void (*convert)(const T* x, size_t x_stride, size_t rows, size_t width, A* y, size_t y_stride);

  // y[width, rows] (stride y_stride) = x[rows, width] transposed, to the type of operands.
  void (*transpose)(const T* x, size_t x_stride, size_t rows, size_t width, A* y, size_t y_stride);

  // The bits of one element do not depend on n, nor on where it lies.
  void (*adamw)(const AdamWBlock<T>& block, size_t n, const AdamWFactors<T>& factors);

  double (*sum_of_squares)(const T* x, size_t n, double scale);
};

// Instances: <float, float>, <float, Bf16>, <double, double>.
template <typename T, typename A>
const KernelTable<T, A>& CpuKernels();

// "x86-64-v4", "x86-64-v3" or "baseline": what CpuKernels() picks.
const char* KernelTarget();

// One for each instruction set: kernels_*.cc.
template <typename T, typename A>
const KernelTable<T, A>& BaselineKernels();
template <typename T, typename A>
const KernelTable<T, A>& V3Kernels();
template <typename T, typename A>
const KernelTable<T, A>& V4Kernels();

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_MODEL_KERNELS_H_
