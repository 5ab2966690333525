// Causal attention on bf16 operands: the products by the matrix units, the scores never in memory
// ("FlashAttention-2", arXiv:2307.08691). A warp has 16 rows of a tile of 64; tiles of the other
// side come in through shared memory, the next while the last is worked on.
#include "worker/trainer/cuda/device/attention_head.h"

namespace lockstep::trainer::gpu {

constexpr unsigned kTileRow =
    kHeadWidth + 8;                           // Bf16; so padded, ldmatrix's rows lie in other banks
constexpr unsigned kSteps = kHeadWidth / 16;  // of products along a row
constexpr unsigned kEighths = kTile / 8;      // of a tile's columns

// Begins to copy rows [first, first + 64) of a head, `stride` apart, into a tile; beyond the
// context come zeros.
GPU_DEVICE void CopyTile(Bf16* tile, const Bf16* head, size_t stride, unsigned first,
                         unsigned context) {
#pragma unroll
  for (unsigned i = 0; i < kTile * kHeadWidth / 8 / 128; ++i) {
    const unsigned chunk = i * 128 + ThreadX();
    const unsigned row = chunk / 8;
    const unsigned column = chunk % 8 * 8;
    const bool valid = first + row < context;
    CopyAsync(tile + row * kTileRow + column, head + (valid ? first + row : 0) * stride + column,
              valid);
  }
}

// A warp's 16 rows of a tile, as the left operand.
struct Rows {
  uint32_t words[kSteps][4];
};
GPU_DEVICE void LoadRows(Rows& rows, const Bf16* tile) {
  const unsigned lane = ThreadX() % 32;
#pragma unroll
  for (unsigned s = 0; s < kSteps; ++s)
    LoadMatrices(rows.words[s],
                 tile + (ThreadX() / 32 * 16 + lane % 16) * kTileRow + s * 16 + lane / 16 * 8);
}

// A warp's part, [16, 64], of a product; also of one between tiles' rows and a tile.
struct Sums {
  float values[kEighths][4];
};

// sums[16, 64] = rows[16, 64] tile[64, 64]'
GPU_DEVICE void MultiplyRows(Sums& sums, const Rows& rows, const Bf16* tile) {
  const unsigned lane = ThreadX() % 32;
#pragma unroll
  for (unsigned n = 0; n < kEighths; ++n) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) sums.values[n][i] = 0;
#pragma unroll
    for (unsigned s = 0; s < kSteps; s += 2) {
      uint32_t words[4];
      LoadMatrices(words, tile + (n * 8 + lane % 8) * kTileRow + s * 16 + lane / 8 * 8);
      Multiply(sums.values[n], rows.words[s], {words[0], words[1]});
      Multiply(sums.values[n], rows.words[s + 1], {words[2], words[3]});
    }
  }
}

// sums[16, 64] += left[16, 64], rounded, tile[64, 64]
GPU_DEVICE void AddProduct(Sums& sums, const Sums& left, const Bf16* tile) {
  const unsigned lane = ThreadX() % 32;
#pragma unroll
  for (unsigned s = 0; s < kTile / 16; ++s) {
    const uint32_t words[4] = {PackBf16(left.values[2 * s][0], left.values[2 * s][1]),
                               PackBf16(left.values[2 * s][2], left.values[2 * s][3]),
                               PackBf16(left.values[2 * s + 1][0], left.values[2 * s + 1][1]),
                               PackBf16(left.values[2 * s + 1][2], left.values[2 * s + 1][3])};
#pragma unroll
    for (unsigned n = 0; n < kEighths; n += 2) {
      uint32_t right[4];
      LoadTransposed(right, tile + (s * 16 + lane % 16) * kTileRow + n * 8 + lane / 16 * 8);
      Multiply(sums.values[n], words, {right[0], right[1]});
      Multiply(sums.values[n + 1], words, {right[2], right[3]});
    }
  }
}

// A lane's row, of the first or second half of its warp's 16, and its column of part n of a tile.
GPU_DEVICE unsigned RowOf(unsigned half) {
  return ThreadX() / 32 * 16 + ThreadX() % 32 / 4 + half * 8;
}
GPU_DEVICE unsigned ColumnOf(unsigned n, unsigned i) { return n * 8 + ThreadX() % 4 * 2 + i % 2; }

// Writes sums times the factor of each half's row to rows [first, first + 64) within the context.
GPU_DEVICE void StoreRows(const Sums& sums, const float (&factor)[2], Bf16* head, size_t stride,
                          unsigned first, unsigned context) {
#pragma unroll
  for (unsigned half = 0; half < 2; ++half) {
    const unsigned row = first + RowOf(half);
    if (row >= context) continue;
#pragma unroll
    for (unsigned n = 0; n < kEighths; ++n) {
      *reinterpret_cast<Word*>(head + row * stride + ColumnOf(n, 0)) = PackBf16(
          sums.values[n][2 * half] * factor[half], sums.values[n][2 * half + 1] * factor[half]);
    }
  }
}

// Two pairs of tiles: the pair of step i is filled while that of step i - 1 is worked on.
struct Pairs {
  Bf16* tiles;
  GPU_DEVICE_MEMBER Bf16* first(unsigned step) const {
    return tiles + step % 2 * 2 * kTile * kTileRow;
  }
  GPU_DEVICE_MEMBER Bf16* second(unsigned step) const { return first(step) + kTile * kTileRow; }
};

GPU_KERNEL(attention_bf16, 128, Attention<Bf16>) {
  GPU_SHARED(Bf16, shared);  // [2][2][kTile][kTileRow]
  const Pairs pairs{shared};
  const Head head = HeadOf(arguments);
  const size_t stride = size_t{3} * head.width;
  const Bf16* q = arguments.qkv + head.first * stride + head.column;
  const Bf16* k = q + head.width;
  const Bf16* v = k + head.width;
  // The longest first.
  const unsigned tile = Blocks(head.context, kTile) - 1 - BlockX();
  const unsigned first = tile * kTile;

  CopyTile(pairs.first(1), q, stride, first, head.context);
  CommitCopies();
  CopyTile(pairs.first(0), k, stride, 0, head.context);
  CopyTile(pairs.second(0), v, stride, 0, head.context);
  CommitCopies();
  WaitForCopies<1>();
  SyncBlock();
  Rows queries;
  LoadRows(queries, pairs.first(1));
  SyncBlock();

  Sums out = {};
  float largest[2] = {kMasked, kMasked};
  float sum[2] = {0, 0};
  for (unsigned step = 0; step <= tile; ++step) {
    if (step < tile) {
      CopyTile(pairs.first(step + 1), k, stride, (step + 1) * kTile, head.context);
      CopyTile(pairs.second(step + 1), v, stride, (step + 1) * kTile, head.context);
    }
    CommitCopies();
    WaitForCopies<1>();
    SyncBlock();
    Sums scores;
    MultiplyRows(scores, queries, pairs.first(step));
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      float top = largest[half];
#pragma unroll
      for (unsigned n = 0; n < kEighths; ++n) {
#pragma unroll
        for (unsigned i = 2 * half; i < 2 * half + 2; ++i) {
          float& score = scores.values[n][i];
          score *= kScaleLog2E;
          if (step == tile && ColumnOf(n, i) > RowOf(half)) score = kMasked;
          top = Max(top, score);
        }
      }
      top = Max(top, ShuffleXor(top, 1));
      top = Max(top, ShuffleXor(top, 2));
      const float shrink = Exp2(largest[half] - top);
      largest[half] = top;
      sum[half] *= shrink;
#pragma unroll
      for (unsigned n = 0; n < kEighths; ++n) {
#pragma unroll
        for (unsigned i = 2 * half; i < 2 * half + 2; ++i) {
          out.values[n][i] *= shrink;
          scores.values[n][i] = Exp2(scores.values[n][i] - top);
          sum[half] += scores.values[n][i];
        }
      }
    }
    AddProduct(out, scores, pairs.second(step));
    SyncBlock();
  }

  float factor[2];
#pragma unroll
  for (unsigned half = 0; half < 2; ++half) {
    sum[half] += ShuffleXor(sum[half], 1);
    sum[half] += ShuffleXor(sum[half], 2);
    factor[half] = 1.0F / sum[half];
    const unsigned row = first + RowOf(half);
    if (ThreadX() % 4 == 0 && row < head.context)
      arguments.log_sum[head.statistics + row] = largest[half] + Log2(sum[half]);
  }
  StoreRows(out, factor, arguments.mixed + head.first * head.width + head.column, head.width, first,
            head.context);
}

// dq = dscores k, dscores = p (dmixed v' - delta) / 8
GPU_KERNEL(attention_queries_bf16, 128, AttentionQueries<Bf16>) {
  GPU_SHARED(Bf16, shared);  // [2][2][kTile][kTileRow]
  const Pairs pairs{shared};
  const Head head = HeadOf(arguments);
  const size_t stride = size_t{3} * head.width;
  const Bf16* q = arguments.qkv + head.first * stride + head.column;
  const Bf16* k = q + head.width;
  const Bf16* v = k + head.width;
  const Bf16* dmixed = arguments.dmixed + head.first * head.width + head.column;
  const unsigned tile = Blocks(head.context, kTile) - 1 - BlockX();
  const unsigned first = tile * kTile;

  CopyTile(pairs.first(1), q, stride, first, head.context);
  CopyTile(pairs.second(1), dmixed, head.width, first, head.context);
  CommitCopies();
  CopyTile(pairs.first(0), k, stride, 0, head.context);
  CopyTile(pairs.second(0), v, stride, 0, head.context);
  CommitCopies();
  WaitForCopies<1>();
  SyncBlock();
  Rows queries;
  Rows gradients;
  LoadRows(queries, pairs.first(1));
  LoadRows(gradients, pairs.second(1));
  SyncBlock();
  float log_sum[2];
  float delta[2];
#pragma unroll
  for (unsigned half = 0; half < 2; ++half) {
    const unsigned row = first + RowOf(half);
    const bool valid = row < head.context;
    log_sum[half] = valid ? arguments.log_sum[head.statistics + row] : 0;
    delta[half] = valid ? arguments.delta[head.statistics + row] : 0;
  }

  Sums out = {};
  for (unsigned step = 0; step <= tile; ++step) {
    if (step < tile) {
      CopyTile(pairs.first(step + 1), k, stride, (step + 1) * kTile, head.context);
      CopyTile(pairs.second(step + 1), v, stride, (step + 1) * kTile, head.context);
    }
    CommitCopies();
    WaitForCopies<1>();
    SyncBlock();
    Sums scores;
    Sums dp;
    MultiplyRows(scores, queries, pairs.first(step));
    MultiplyRows(dp, gradients, pairs.second(step));
#pragma unroll
    for (unsigned n = 0; n < kEighths; ++n) {
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) {
        const bool masked = step == tile && ColumnOf(n, i) > RowOf(i / 2);
        const float p = masked ? 0 : Exp2(Fma(scores.values[n][i], kScaleLog2E, -log_sum[i / 2]));
        scores.values[n][i] = p * (dp.values[n][i] - delta[i / 2]);
      }
    }
    AddProduct(out, scores, pairs.first(step));
    SyncBlock();
  }
  StoreRows(out, {kScale, kScale}, arguments.dqkv + head.first * stride + head.column, stride,
            first, head.context);
}

// dv = p' dmixed, dk = dscores' q: the scores transposed, so that a warp has 16 keys.
GPU_KERNEL(attention_keys_bf16, 128, AttentionKeys<Bf16>) {
  GPU_SHARED(Bf16, shared);  // [2][2][kTile][kTileRow]
  const Pairs pairs{shared};
  const Head head = HeadOf(arguments);
  const size_t stride = size_t{3} * head.width;
  const Bf16* q = arguments.qkv + head.first * stride + head.column;
  const Bf16* k = q + head.width;
  const Bf16* v = k + head.width;
  const Bf16* dmixed = arguments.dmixed + head.first * head.width + head.column;
  const unsigned tile = BlockX();
  const unsigned first = tile * kTile;
  const unsigned steps = Blocks(head.context, kTile) - tile;

  CopyTile(pairs.first(1), k, stride, first, head.context);
  CopyTile(pairs.second(1), v, stride, first, head.context);
  CommitCopies();
  CopyTile(pairs.first(0), q, stride, first, head.context);
  CopyTile(pairs.second(0), dmixed, head.width, first, head.context);
  CommitCopies();
  WaitForCopies<1>();
  SyncBlock();
  Rows keys;
  Rows values;
  LoadRows(keys, pairs.first(1));
  LoadRows(values, pairs.second(1));
  SyncBlock();

  Sums dk = {};
  Sums dv = {};
  for (unsigned step = 0; step < steps; ++step) {
    const unsigned query = first + step * kTile;
    if (step + 1 < steps) {
      CopyTile(pairs.first(step + 1), q, stride, query + kTile, head.context);
      CopyTile(pairs.second(step + 1), dmixed, head.width, query + kTile, head.context);
    }
    CommitCopies();
    WaitForCopies<1>();
    SyncBlock();
    Sums scores;
    Sums dp;
    MultiplyRows(scores, keys, pairs.first(step));
    MultiplyRows(dp, values, pairs.second(step));
#pragma unroll
    for (unsigned n = 0; n < kEighths; ++n) {
#pragma unroll
      for (unsigned j = 0; j < 2; ++j) {
        const unsigned column = ColumnOf(n, j);
        const bool valid = query + column < head.context;
        const float log_sum = valid ? arguments.log_sum[head.statistics + query + column] : 0;
        const float delta = valid ? arguments.delta[head.statistics + query + column] : 0;
#pragma unroll
        for (unsigned half = 0; half < 2; ++half) {
          const unsigned i = 2 * half + j;
          const bool masked = !valid || (step == 0 && RowOf(half) > column);
          const float p = masked ? 0 : Exp2(Fma(scores.values[n][i], kScaleLog2E, -log_sum));
          scores.values[n][i] = p;
          dp.values[n][i] = p * (dp.values[n][i] - delta);
        }
      }
    }
    AddProduct(dv, scores, pairs.second(step));
    AddProduct(dk, dp, pairs.first(step));
    SyncBlock();
  }
  Bf16* dkey = arguments.dqkv + head.first * stride + head.column + head.width;
  StoreRows(dk, {kScale, kScale}, dkey, stride, first, head.context);
  StoreRows(dv, {1, 1}, dkey + head.width, stride, first, head.context);
}

// A warp has a head of a row.
template <typename A>
GPU_DEVICE void SumDelta(const AttentionDelta<A>& a) {
  const size_t i = size_t{BlockX()} * 8 + ThreadX() / 32;
  if (i >= size_t{a.batch} * a.context * a.heads) return;
  const size_t row = i / a.heads;
  const size_t head = i % a.heads;
  const unsigned lane = ThreadX() % 32;
  float sum = 0;
  if (lane < kHeadWidth / 4) {
    const size_t at = i * kHeadWidth + size_t{lane} * 4;
    const Float4 x = Load4(a.mixed + at) * Load4(a.dmixed + at);
    sum = (x[0] + x[1]) + (x[2] + x[3]);
  }
  sum = WarpSum(sum);
  if (lane == 0) a.delta[(row / a.context * a.heads + head) * a.context + row % a.context] = sum;
}
GPU_KERNEL(attention_delta_bf16, 256, AttentionDelta<Bf16>) { SumDelta(arguments); }
GPU_KERNEL(attention_delta_fp32, 256, AttentionDelta<float>) { SumDelta(arguments); }

}  // namespace lockstep::trainer::gpu
