// LayerNorm, with the residual stream that it reads, and the sums over rows that backward takes.
#include "worker/trainer/cuda/device/gpt_kernels.h"
#include "worker/trainer/cuda/device/gpu.h"

namespace lockstep::trainer::gpu {

// A warp has a row, in shared memory between its passes; each lane reads what it wrote itself.
template <typename A>
GPU_DEVICE void NormForward(const ResidualNorm<A>& a) {
  GPU_SHARED(float, shared);  // [kNormWarps][C]
  const unsigned lane = ThreadX() % 32;
  const unsigned row = BlockX() * kNormWarps + ThreadX() / 32;
  if (row >= a.rows) return;
  float* own = shared + size_t{ThreadX() / 32} * a.width;
  const size_t at = size_t{row} * a.width;

  float sum = 0;
  for (unsigned c = lane * 4; c < a.width; c += 128) {
    Float4 x = Load4(a.x + at + c);
    if (a.y != nullptr) {
      x += Load4(a.y + at + c);
      Store4(a.sum + at + c, x);
    }
    Store4(own + c, x);
    sum += (x[0] + x[1]) + (x[2] + x[3]);
  }
  const float mean = WarpSum(sum) / static_cast<float>(a.width);
  float squares = 0;
  for (unsigned c = lane * 4; c < a.width; c += 128) {
    const Float4 d = Load4(own + c) - mean;
    squares += (d[0] * d[0] + d[1] * d[1]) + (d[2] * d[2] + d[3] * d[3]);
  }
  const float rstd = 1.0F / Sqrt(WarpSum(squares) / static_cast<float>(a.width) + 1e-5F);
  for (unsigned c = lane * 4; c < a.width; c += 128)
    Store4(a.normal + at + c,
           (Load4(own + c) - mean) * rstd * Load4(a.weight + c) + Load4(a.bias + c));
  if (lane == 0) {
    a.mean[row] = mean;
    a.rstd[row] = rstd;
  }
}
GPU_KERNEL(residual_norm_bf16, 32 * kNormWarps, ResidualNorm<Bf16>) { NormForward(arguments); }
GPU_KERNEL(residual_norm_fp32, 32 * kNormWarps, ResidualNorm<float>) { NormForward(arguments); }

// Eight rows at a time: first a warp makes one row's two means; then a thread has four columns of
// all eight, whose sums over the block's rows lie in shared memory, where nobody else looks at
// them.
template <typename A>
GPU_DEVICE void NormGradient(const NormBackward<A>& a) {
  constexpr unsigned kRows = 8;
  GPU_SHARED(float, sums);            // [3][C]
  float* means = sums + 3 * a.width;  // [kRows][2]
  const unsigned warp = ThreadX() / 32;
  const unsigned lane = ThreadX() % 32;
  for (unsigned c = ThreadX() * 4; c < a.width; c += 1024) {
    for (unsigned k = 0; k < 3; ++k) Store4(sums + k * a.width + c, Float4{});
  }
  const unsigned end =
      BlockX() * kNormRows + kNormRows < a.rows ? (BlockX() + 1) * kNormRows : a.rows;
  for (unsigned first = BlockX() * kNormRows; first < end; first += kRows) {
    if (first + warp < end) {
      const unsigned row = first + warp;
      const size_t at = size_t{row} * a.width;
      const float mean = a.mean[row];
      const float rstd = a.rstd[row];
      float sum = 0;
      float sum_normal = 0;
      for (unsigned c = lane * 4; c < a.width; c += 128) {
        const Float4 d = Load4(a.dnormal + at + c) * Load4(a.weight + c);
        const Float4 dn = d * ((Load4(a.x + at + c) - mean) * rstd);
        sum += (d[0] + d[1]) + (d[2] + d[3]);
        sum_normal += (dn[0] + dn[1]) + (dn[2] + dn[3]);
      }
      sum = WarpSum(sum);
      sum_normal = WarpSum(sum_normal);
      if (lane == 0) {
        means[warp * 2] = sum / static_cast<float>(a.width);
        means[warp * 2 + 1] = sum_normal / static_cast<float>(a.width);
      }
    }
    SyncBlock();
    const unsigned rows = end - first < kRows ? end - first : kRows;
    for (unsigned c = ThreadX() * 4; c < a.width; c += 1024) {
      const Float4 weight = Load4(a.weight + c);
      Float4 dweight = {};
      Float4 dbias = {};
      Float4 dsum = {};
      for (unsigned r = 0; r < rows; ++r) {
        const size_t at = size_t{first + r} * a.width + c;
        const float rstd = a.rstd[first + r];
        const Float4 d = Load4(a.dnormal + at);
        const Float4 normal = (Load4(a.x + at) - a.mean[first + r]) * rstd;
        Float4 dx = (d * weight - means[r * 2] - normal * means[r * 2 + 1]) * rstd;
        if (a.residual != nullptr) dx += Load4(a.residual + at);
        Store4(a.dx + at, dx);
        if (a.dx_operand != nullptr) Store4(a.dx_operand + at, dx);
        dweight += d * normal;
        dbias += d;
        dsum += dx;
      }
      Store4(sums + c, Load4(sums + c) + dweight);
      Store4(sums + a.width + c, Load4(sums + a.width + c) + dbias);
      Store4(sums + 2 * a.width + c, Load4(sums + 2 * a.width + c) + dsum);
    }
    SyncBlock();
  }
  float* partial = a.partial + size_t{BlockX()} * 3 * a.width;
  for (unsigned c = ThreadX() * 4; c < a.width; c += 1024) {
    for (unsigned k = 0; k < 3; ++k)
      Store4(partial + k * a.width + c, Load4(sums + k * a.width + c));
  }
}
GPU_KERNEL(norm_backward_bf16, 256, NormBackward<Bf16>) { NormGradient(arguments); }
GPU_KERNEL(norm_backward_fp32, 256, NormBackward<float>) { NormGradient(arguments); }

// Sixteen threads have 64 columns of a row, four each.
template <typename A>
GPU_DEVICE void BiasSums(const BiasBackward<A>& a) {
  GPU_SHARED(float, shared);  // [16][64]
  const unsigned column = ThreadX() % 16 * 4;
  const unsigned group = ThreadX() / 16;
  const unsigned first = BlockY() * kBiasRows;
  const unsigned end = first + kBiasRows < a.rows ? first + kBiasRows : a.rows;
  Float4 sum = {};
  for (unsigned row = first + group; row < end; row += 16)
    sum += Load4(a.dy + size_t{row} * a.width + size_t{BlockX()} * 64 + column);
  Store4(shared + group * 64 + column, sum);
  SyncBlock();
  if (ThreadX() >= 64) return;
  float total = 0;
  for (unsigned i = 0; i < 16; ++i) total += shared[i * 64 + ThreadX()];
  a.partial[size_t{BlockY()} * a.width + size_t{BlockX()} * 64 + ThreadX()] = total;
}
GPU_KERNEL(bias_backward_bf16, 256, BiasBackward<Bf16>) { BiasSums(arguments); }
GPU_KERNEL(bias_backward_fp32, 256, BiasBackward<float>) { BiasSums(arguments); }

GPU_KERNEL(column_sums, 256, ColumnSums) {
  const ColumnSums& a = arguments;
  GPU_SHARED(float, shared);  // [8][kSumColumns]
  const unsigned lane = ThreadX() % kSumColumns;
  const unsigned warp = ThreadX() / kSumColumns;
  const unsigned column = BlockX() * kSumColumns + lane;
  float sum = 0;
  for (unsigned part = warp; part < a.parts; part += 8)
    sum += a.partial[(size_t{part} * a.groups + BlockY()) * a.width + column];
  shared[warp * kSumColumns + lane] = sum;
  SyncBlock();
  float* sums = BlockY() == 0 ? a.sums[0] : BlockY() == 1 ? a.sums[1] : a.sums[2];
  if (warp > 0 || sums == nullptr) return;
  float total = 0;
  for (unsigned i = 0; i < 8; ++i) total += shared[i * kSumColumns + lane];
  sums[column] = total;
}

}  // namespace lockstep::trainer::gpu
