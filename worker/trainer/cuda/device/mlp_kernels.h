// The kernels of the test model (mlp.h), as gpt_kernels.h has the GPT's: n rows of a batch, `in`
// and `out` features; all row-major float32.
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_DEVICE_MLP_KERNELS_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_DEVICE_MLP_KERNELS_H_

#include "worker/trainer/cuda/device/gpt_kernels.h"

namespace lockstep::trainer::gpu {

// y[n][out] = x[n][in] * w[out][in]^T + b[out]
struct LinearForward {
  static constexpr const char* kName = "linear_forward";
  const float* x;
  const float* w;
  const float* b;
  float* y;
  unsigned n, in, out;
  constexpr LaunchShape shape() const { return Elements(size_t{n} * out, 1); }
};

// h = tanh(h)
struct TanhForward {
  static constexpr const char* kName = "tanh_forward";
  float* h;
  unsigned count;
  constexpr LaunchShape shape() const { return Elements(count, 1); }
};

// loss = scale * sum (y - target)^2; squares = its terms, dy = d loss / dy
struct SquaredError {
  static constexpr const char* kName = "squared_error";
  const float* y;
  const float* target;
  float* squares;
  float* dy;
  float scale;
  unsigned count;
  constexpr LaunchShape shape() const { return Elements(count, 1); }
};

// dw[out][in] = dy[n][out]^T * x[n][in]
struct LinearWeight {
  static constexpr const char* kName = "linear_backward_weight";
  const float* dy;
  const float* x;
  float* dw;
  unsigned n, in, out;
  constexpr LaunchShape shape() const { return Elements(size_t{out} * in, 1); }
};

// db[out] = the sum of dy[n][out] over the rows
struct LinearBias {
  static constexpr const char* kName = "linear_backward_bias";
  const float* dy;
  float* db;
  unsigned n, out;
  constexpr LaunchShape shape() const { return Elements(out, 1); }
};

// dx[n][in] = dy[n][out] * w[out][in]
struct LinearInput {
  static constexpr const char* kName = "linear_backward_input";
  const float* dy;
  const float* w;
  float* dx;
  unsigned n, in, out;
  constexpr LaunchShape shape() const { return Elements(size_t{n} * in, 1); }
};

// dh *= 1 - h^2, where h = tanh(...)
struct TanhBackward {
  static constexpr const char* kName = "tanh_backward";
  const float* h;
  float* dh;
  unsigned count;
  constexpr LaunchShape shape() const { return Elements(count, 1); }
};

// p -= rate * g
struct Descend {
  static constexpr const char* kName = "sgd";
  float* p;
  const float* g;
  float rate;
  unsigned count;
  constexpr LaunchShape shape() const { return Elements(count, 1); }
};

}  // namespace lockstep::trainer::gpu

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_DEVICE_MLP_KERNELS_H_
