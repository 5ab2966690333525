// The kernels of the test model (mlp.h). One thread computes one number, in a fixed order, without
// shared memory: so results do not depend on the grid, and the tests' fake GPU runs this same
// file on the host. Shapes: n rows of a batch, `in` and `out` features; all row-major float32.

// y[n][out] = x[n][in] * w[out][in]^T + b[out]
extern "C" __global__ void linear_forward(const float* x, const float* w, const float* b, float* y,
                                          unsigned n, unsigned in, unsigned out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n * out) return;
  const unsigned row = i / out;
  const unsigned column = i % out;
  float sum = b[column];
  for (unsigned k = 0; k < in; ++k) sum += x[row * in + k] * w[column * in + k];
  y[i] = sum;
}

// h[count] = tanh(h)
extern "C" __global__ void tanh_forward(float* h, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) h[i] = tanhf(h[i]);
}

// loss = scale * sum (y - target)^2; squares[count] = its terms, dy[count] = d loss / dy
extern "C" __global__ void squared_error(const float* y, const float* target, float* squares,
                                         float* dy, float scale, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float difference = y[i] - target[i];
  squares[i] = scale * difference * difference;
  dy[i] = 2.0f * scale * difference;
}

// dw[out][in] = dy[n][out]^T * x[n][in]
extern "C" __global__ void linear_backward_weight(const float* dy, const float* x, float* dw,
                                                  unsigned n, unsigned in, unsigned out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= out * in) return;
  const unsigned row = i / in;
  const unsigned column = i % in;
  float sum = 0.0f;
  for (unsigned k = 0; k < n; ++k) sum += dy[k * out + row] * x[k * in + column];
  dw[i] = sum;
}

// db[out] = the sum of dy[n][out] over the rows
extern "C" __global__ void linear_backward_bias(const float* dy, float* db, unsigned n,
                                                unsigned out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= out) return;
  float sum = 0.0f;
  for (unsigned k = 0; k < n; ++k) sum += dy[k * out + i];
  db[i] = sum;
}

// dx[n][in] = dy[n][out] * w[out][in]
extern "C" __global__ void linear_backward_input(const float* dy, const float* w, float* dx,
                                                 unsigned n, unsigned in, unsigned out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n * in) return;
  const unsigned row = i / in;
  const unsigned column = i % in;
  float sum = 0.0f;
  for (unsigned k = 0; k < out; ++k) sum += dy[row * out + k] * w[k * in + column];
  dx[i] = sum;
}

// dh[count] *= 1 - h^2, where h = tanh(...)
extern "C" __global__ void tanh_backward(const float* h, float* dh, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) dh[i] *= 1.0f - h[i] * h[i];
}

// p[count] -= rate * g[count]
extern "C" __global__ void sgd(float* p, const float* g, float rate, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) p[i] -= rate * g[i];
}
