// Kernels of which each thread makes a few elements by itself.
#include "worker/trainer/cuda/device/gpt_kernels.h"
#include "worker/trainer/cuda/device/gpu.h"

namespace lockstep::trainer::gpu {

template <typename A>
GPU_DEVICE void ConvertElements(const ConvertParameters<A>& a) {
  const size_t to = Element(kElementThreads, 4);
  if (to >= a.count + a.layout.gap) return;
  Float4 values = {};
  if (to < a.layout.split) {
    values = Load4(a.from + to);
  } else if (to >= a.layout.split + a.layout.gap) {
    values = Load4(a.from + to - a.layout.gap);
  }
  Store4(a.to + to, values);
}
GPU_KERNEL(convert_parameters_bf16, kElementThreads, ConvertParameters<Bf16>) {
  ConvertElements(arguments);
}
GPU_KERNEL(convert_parameters_fp32, kElementThreads, ConvertParameters<float>) {
  ConvertElements(arguments);
}

GPU_KERNEL(embed, kElementThreads, Embed) {
  const Embed& a = arguments;
  const size_t i = Element(kElementThreads, 4);
  if (i >= size_t{a.rows} * a.width) return;
  const auto row = static_cast<unsigned>(i / a.width);
  const auto column = static_cast<unsigned>(i % a.width);
  const auto token = static_cast<size_t>(a.tokens[row]);
  Store4(a.x + i, Load4(a.wte + token * a.width + column) +
                      Load4(a.wpe + size_t{row % a.context} * a.width + column));
}

template <typename A>
GPU_DEVICE void AddResidual(const ResidualAdd<A>& a) {
  const size_t i = Element(kElementThreads, 4);
  if (i < a.count) Store4(a.sum + i, Load4(a.x + i) + Load4(a.y + i));
}
GPU_KERNEL(residual_add_bf16, kElementThreads, ResidualAdd<Bf16>) { AddResidual(arguments); }
GPU_KERNEL(residual_add_fp32, kElementThreads, ResidualAdd<float>) { AddResidual(arguments); }

template <typename A>
GPU_DEVICE void AddBiasToRow(const AddBias<A>& a) {
  const size_t i = Element(kElementThreads, 4);
  if (i >= size_t{a.rows} * a.width) return;
  Float4 sum = Load4(a.x + i);
  if (a.bias != nullptr) sum += Load4(a.bias + i % a.width);
  Store4(a.y + i, sum);
}
GPU_KERNEL(add_bias_bf16, kElementThreads, AddBias<Bf16>) { AddBiasToRow(arguments); }
GPU_KERNEL(add_bias_fp32, kElementThreads, AddBias<float>) { AddBiasToRow(arguments); }

// gelu(x) = x s, s = 1 / (1 + e), e = exp(-2 sqrt(2 / pi) (x + 0.044715 x^3))
constexpr float kGeluRoot = 1.5957691216057308F;  // 2 sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715F;

struct GeluFactor {
  float e;
  float s;
};
GPU_DEVICE GeluFactor GeluFactorOf(float x) {
  constexpr float kLog2E = 1.4426950408889634F;
  // So that e is finite, and e s = 1 - s where s is all but 0.
  const float power = Max(kGeluRoot * kLog2E * Fma(kGeluCubic * x * x, x, x), -126.0F);
  const float e = Exp2(-power);
  return {e, 1.0F / (1.0F + e)};
}

// Calls `body` with the first of four elements, twice for each thread.
template <typename Body>
GPU_DEVICE void ForFours(size_t count, const Body& body) {
  const size_t first = size_t{BlockX()} * kElementThreads * 8 + size_t{ThreadX()} * 4;
  if (first < count) body(first);
  const size_t second = first + size_t{kElementThreads} * 4;
  if (second < count) body(second);
}

template <typename A>
GPU_DEVICE void GeluForward(const Gelu<A>& a) {
  ForFours(a.count, [&](size_t i) {
    Float4 x = Load4(a.x + i);
    for (int j = 0; j < 4; ++j) x[j] *= GeluFactorOf(x[j]).s;
    Store4(a.y + i, x);
  });
}
GPU_KERNEL(gelu_bf16, kElementThreads, Gelu<Bf16>) { GeluForward(arguments); }
GPU_KERNEL(gelu_fp32, kElementThreads, Gelu<float>) { GeluForward(arguments); }

template <typename A>
GPU_DEVICE void GeluGradient(const GeluBackward<A>& a) {
  ForFours(a.count, [&](size_t i) {
    const Float4 x = Load4(a.x + i);
    Float4 d = Load4(a.dy + i);
    for (int j = 0; j < 4; ++j) {
      const auto [e, s] = GeluFactorOf(x[j]);
      const float inner = kGeluRoot * Fma(3 * kGeluCubic * x[j], x[j], 1.0F);
      d[j] *= Fma(x[j] * s * (e * s), inner, s);
    }
    Store4(a.dx + i, d);
  });
}
GPU_KERNEL(gelu_backward_bf16, kElementThreads, GeluBackward<Bf16>) { GeluGradient(arguments); }
GPU_KERNEL(gelu_backward_fp32, kElementThreads, GeluBackward<float>) { GeluGradient(arguments); }

GPU_KERNEL(position_backward, kElementThreads, PositionBackward) {
  const PositionBackward& a = arguments;
  const size_t i = Element(kElementThreads, 4);
  const size_t sequence = size_t{a.context} * a.width;
  if (i >= sequence) return;
  Float4 sum = Load4(a.dx + i);
  for (unsigned b = 1; b < a.batch; ++b) sum += Load4(a.dx + b * sequence + i);
  Store4(a.dwpe + i, sum);
}

// A few rows are summed by the threads of each column; many by eight warps for 128 columns at a
// time, each every eighth row: in GPT-2's vocabulary one token in twenty is the same.
GPU_KERNEL(token_backward, kTokenThreads, TokenBackward) {
  constexpr int32_t kMany = 64;
  constexpr unsigned kWarps = kTokenThreads / 32;
  GPU_SHARED(float, shared);  // [kWarps][128]
  const TokenBackward& a = arguments;
  const int32_t begin = a.starts[BlockX()];
  const int32_t end = a.starts[BlockX() + 1];
  float* out = a.dwte + size_t{BlockX()} * a.width;
  const auto row = [&](int32_t i) { return a.dx + static_cast<size_t>(a.rows[i]) * a.width; };
  if (end - begin < kMany) {
    for (unsigned column = ThreadX() * 4; column < a.width; column += kTokenThreads * 4) {
      Float4 sum = {};
      for (int32_t i = begin; i < end; ++i) sum += Load4(row(i) + column);
      Store4(out + column, sum);
    }
    return;
  }
  const unsigned warp = ThreadX() / 32;
  const unsigned lane = ThreadX() % 32;
  for (unsigned column = lane * 4; column - lane * 4 < a.width; column += 128) {
    Float4 sum = {};
    if (column < a.width) {
#pragma unroll 4
      for (int32_t i = begin + static_cast<int32_t>(warp); i < end; i += int32_t{kWarps})
        sum += Load4(row(i) + column);
    }
    Store4(shared + warp * 128 + lane * 4, sum);
    SyncBlock();
    if (warp == 0 && column < a.width) {
      for (unsigned other = 1; other < kWarps; ++other)
        sum += Load4(shared + other * 128 + lane * 4);
      Store4(out + column, sum);
    }
    SyncBlock();
  }
}

GPU_KERNEL(tree_add, kElementThreads, TreeAdd) {
  const TreeAdd& a = arguments;
  const size_t i = Element(kElementThreads, 4);
  if (i + 4 <= a.count) {
    Store4(a.sum + i, Load4(a.sum + i) + Load4(a.part + i));
  } else {
    for (size_t j = i; j < a.count; ++j) a.sum[j] += a.part[j];
  }
}

GPU_KERNEL(copy, kElementThreads, Copy) {
  const Copy& a = arguments;
  const size_t i = Element(kElementThreads, 4);
  if (i + 4 <= a.count) {
    Store4(a.to + i, Load4(a.from + i));
  } else {
    for (size_t j = i; j < a.count; ++j) a.to[j] = a.from[j];
  }
}

// How many subtrees end with leaf `leaf` of n, of those that are right halves.
GPU_DEVICE unsigned EndsOf(unsigned leaf, unsigned n) {
  unsigned first = 0;
  unsigned ends = 0;
  while (n > 1) {
    const unsigned left = (n + 1) / 2;
    if (leaf < first + left) {
      n = left;
      ends = 0;
    } else {
      first += left;
      n -= left;
      ++ends;
    }
  }
  return ends;
}

GPU_KERNEL(slice_sum, kElementThreads, SliceSum) {
  const SliceSum& a = arguments;
  const size_t i = Element(kElementThreads, 1);
  if (i >= a.count) return;
  float held[13];  // sums of subtrees whose right sibling is not summed yet
  unsigned depth = 0;
  for (unsigned part = 0; part < a.n; ++part) {
    float sum = a.parts[part * a.stride + i];
    for (unsigned ends = EndsOf(part, a.n); ends > 0; --ends) sum = held[--depth] + sum;
    held[depth++] = sum;
  }
  a.sum[i] = held[0];
}

}  // namespace lockstep::trainer::gpu
