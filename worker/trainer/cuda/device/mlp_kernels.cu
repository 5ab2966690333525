// The test model's kernels. One thread computes one number, in a fixed order.
#include "worker/trainer/cuda/device/gpu.h"
#include "worker/trainer/cuda/device/mlp_kernels.h"

namespace lockstep::trainer::gpu {

GPU_KERNEL(linear_forward, kElementThreads, LinearForward) {
  const LinearForward& a = arguments;
  const size_t i = Element(kElementThreads, 1);
  if (i >= size_t{a.n} * a.out) return;
  const size_t row = i / a.out;
  const size_t column = i % a.out;
  float sum = a.b[column];
  for (unsigned k = 0; k < a.in; ++k) sum += a.x[row * a.in + k] * a.w[column * a.in + k];
  a.y[i] = sum;
}

GPU_KERNEL(tanh_forward, kElementThreads, TanhForward) {
  const size_t i = Element(kElementThreads, 1);
  if (i >= arguments.count) return;
  // 1 - 2 / (exp(2 h) + 1)
  arguments.h[i] = 1.0F - 2.0F / (Exp2(arguments.h[i] * 2.8853900817779268F) + 1.0F);
}

GPU_KERNEL(squared_error, kElementThreads, SquaredError) {
  const SquaredError& a = arguments;
  const size_t i = Element(kElementThreads, 1);
  if (i >= a.count) return;
  const float difference = a.y[i] - a.target[i];
  a.squares[i] = a.scale * difference * difference;
  a.dy[i] = 2.0F * a.scale * difference;
}

GPU_KERNEL(linear_backward_weight, kElementThreads, LinearWeight) {
  const LinearWeight& a = arguments;
  const size_t i = Element(kElementThreads, 1);
  if (i >= size_t{a.out} * a.in) return;
  const size_t row = i / a.in;
  const size_t column = i % a.in;
  float sum = 0.0F;
  for (unsigned k = 0; k < a.n; ++k) sum += a.dy[k * a.out + row] * a.x[k * a.in + column];
  a.dw[i] = sum;
}

GPU_KERNEL(linear_backward_bias, kElementThreads, LinearBias) {
  const LinearBias& a = arguments;
  const size_t i = Element(kElementThreads, 1);
  if (i >= a.out) return;
  float sum = 0.0F;
  for (unsigned k = 0; k < a.n; ++k) sum += a.dy[k * a.out + i];
  a.db[i] = sum;
}

GPU_KERNEL(linear_backward_input, kElementThreads, LinearInput) {
  const LinearInput& a = arguments;
  const size_t i = Element(kElementThreads, 1);
  if (i >= size_t{a.n} * a.in) return;
  const size_t row = i / a.in;
  const size_t column = i % a.in;
  float sum = 0.0F;
  for (unsigned k = 0; k < a.out; ++k) sum += a.dy[row * a.out + k] * a.w[k * a.in + column];
  a.dx[i] = sum;
}

GPU_KERNEL(tanh_backward, kElementThreads, TanhBackward) {
  const size_t i = Element(kElementThreads, 1);
  if (i < arguments.count) arguments.dh[i] *= 1.0F - arguments.h[i] * arguments.h[i];
}

GPU_KERNEL(sgd, kElementThreads, Descend) {
  const size_t i = Element(kElementThreads, 1);
  if (i < arguments.count) arguments.p[i] -= arguments.rate * arguments.g[i];
}

}  // namespace lockstep::trainer::gpu
