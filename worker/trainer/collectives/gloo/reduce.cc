#include "worker/trainer/collectives/gloo/reduce.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <vector>

namespace lockstep::collectives {
namespace {

// Bytes of an intermediate result: a few of them and the sources' parts stay in the first cache.
constexpr size_t kTileBytes = 4096;
// Levels of the tree: enough for 2^24 ranks.
constexpr size_t kMostLevels = 24;

template <typename T>
constexpr size_t kTile = kTileBytes / sizeof(T);

struct Sum {
  template <typename T>
  static T Apply(T a, T b) {
    return a + b;
  }
};
struct Min {
  template <typename T>
  static T Apply(T a, T b) {
    return b < a ? b : a;
  }
};
struct Max {
  template <typename T>
  static T Apply(T a, T b) {
    return a < b ? b : a;
  }
};

// out[i] = op(left[i], right[i]), where `out` may be `left` or `right` themselves. A block is read
// whole before it is written, so that the compiler need not ask which of them it is.
template <typename T, typename Op>
void Combine(const T* left, const T* right, size_t n, T* out) {
  constexpr size_t kBlock = 16;
  size_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    std::array<T, kBlock> block;
    for (size_t j = 0; j < kBlock; ++j) block[j] = Op::template Apply<T>(left[i + j], right[i + j]);
    std::copy_n(block.data(), kBlock, out + i);
  }
  for (; i < n; ++i) out[i] = Op::template Apply<T>(left[i], right[i]);
}

// The tree over sources[..][at .. at+n), n at most a tile: `tiles` has room for one more tile than
// the tree has levels, `out` for one. Returns where the result is.
template <typename T, typename Op>
const T* Tree(std::span<const void* const> sources, size_t at, size_t n, T* tiles, T* out) {
  if (sources.size() == 1) return static_cast<const T*>(sources[0]) + at;
  const size_t half = (sources.size() + 1) / 2;
  T* const others = tiles + kTile<T>;
  const T* left = Tree<T, Op>(sources.first(half), at, n, tiles, tiles);
  const T* right = Tree<T, Op>(sources.subspan(half), at, n, others, others);
  Combine<T, Op>(left, right, n, out);
  return out;
}

template <typename T, typename Op>
void Reduce(std::span<const void* const> sources, size_t count, T* out) {
  alignas(64) std::array<T, kMostLevels * kTile<T>> tiles;
  for (size_t at = 0; at < count; at += kTile<T>) {
    const size_t n = std::min(kTile<T>, count - at);
    const T* result = Tree<T, Op>(sources, at, n, tiles.data(), out + at);
    if (result != out + at) std::copy_n(result, n, out + at);
  }
}

template <typename T>
void Reduce(Reduction op, std::span<const void* const> sources, size_t count, T* out) {
  switch (op) {
    case Reduction::kSum:
      return Reduce<T, Sum>(sources, count, out);
    case Reduction::kMin:
      return Reduce<T, Min>(sources, count, out);
    case Reduction::kMax:
      return Reduce<T, Max>(sources, count, out);
  }
}

}  // namespace

void ReduceTree(Reduction op, DataType type, std::span<const void* const> sources, size_t count,
                void* out) {
  assert(IsReduced(type) && !sources.empty());
  if (type == DataType::kFloat32) return Reduce(op, sources, count, static_cast<float*>(out));
  Reduce(op, sources, count, static_cast<int64_t*>(out));
}

}  // namespace lockstep::collectives
