// Causal attention in fp32, without the matrix units, whose fp32 is TF32. Four threads have a row
// of a tile, each every fourth column of the head; the other side's tiles lie in shared memory.
#include "worker/trainer/cuda/device/attention_head.h"

namespace lockstep::trainer::gpu {

constexpr unsigned kQuarter = kHeadWidth / 4;

// A thread's columns of a row.
struct Quarter {
  float values[kQuarter];
};
GPU_DEVICE unsigned QuarterColumn(unsigned i) { return i * 4 + ThreadX() % 4; }

GPU_DEVICE void LoadQuarter(Quarter& quarter, const float* row, bool valid) {
#pragma unroll
  for (unsigned i = 0; i < kQuarter; ++i) quarter.values[i] = valid ? row[QuarterColumn(i)] : 0;
}
GPU_DEVICE void StoreQuarter(const Quarter& quarter, float factor, float* row) {
#pragma unroll
  for (unsigned i = 0; i < kQuarter; ++i) row[QuarterColumn(i)] = quarter.values[i] * factor;
}

// Of whole rows; the same bits in all four threads.
GPU_DEVICE float Dot(const Quarter& quarter, const float* row) {
  float sum = 0;
#pragma unroll
  for (unsigned i = 0; i < kQuarter; ++i) sum = Fma(quarter.values[i], row[QuarterColumn(i)], sum);
  sum += ShuffleXor(sum, 1);
  return sum + ShuffleXor(sum, 2);
}
GPU_DEVICE void AddScaled(Quarter& quarter, float factor, const float* row) {
#pragma unroll
  for (unsigned i = 0; i < kQuarter; ++i)
    quarter.values[i] = Fma(factor, row[QuarterColumn(i)], quarter.values[i]);
}

// Rows [first, first + 64) of a head; zeros beyond the context.
GPU_DEVICE void FillTile(float* tile, const float* head, size_t stride, unsigned first,
                         unsigned context) {
  for (unsigned i = ThreadX() * 4; i < kTile * kHeadWidth; i += 256 * 4) {
    const unsigned row = first + i / kHeadWidth;
    Store4(tile + i, row < context ? Load4(head + row * stride + i % kHeadWidth) : Float4{});
  }
}

GPU_KERNEL(attention_fp32, 256, Attention<float>) {
  GPU_SHARED(float, keys);  // [kTile][kHeadWidth]
  float* values = keys + kTile * kHeadWidth;
  const Head head = HeadOf(arguments);
  const size_t stride = size_t{3} * head.width;
  const float* q = arguments.qkv + head.first * stride + head.column;
  const unsigned row = BlockX() * kTile + ThreadX() / 4;
  const bool valid = row < head.context;
  Quarter query;
  LoadQuarter(query, q + (valid ? row : 0) * stride, valid);

  Quarter out = {};
  float largest = kMasked;
  float sum = 0;
  for (unsigned first = 0; first <= BlockX() * kTile; first += kTile) {
    FillTile(keys, q + head.width, stride, first, head.context);
    FillTile(values, q + 2 * head.width, stride, first, head.context);
    SyncBlock();
    for (unsigned j = 0; j < kTile; ++j) {
      float score = Dot(query, keys + j * kHeadWidth) * kScaleLog2E;
      if (first + j > row) score = kMasked;
      const float top = Max(largest, score);
      const float shrink = Exp2(largest - top);
      const float p = Exp2(score - top);
      largest = top;
      sum = Fma(sum, shrink, p);
#pragma unroll
      for (float& value : out.values) value *= shrink;
      AddScaled(out, p, values + j * kHeadWidth);
    }
    SyncBlock();
  }
  if (!valid) return;
  StoreQuarter(out, 1.0F / sum, arguments.mixed + (head.first + row) * head.width + head.column);
  if (ThreadX() % 4 == 0) arguments.log_sum[head.statistics + row] = largest + Log2(sum);
}

GPU_KERNEL(attention_queries_fp32, 256, AttentionQueries<float>) {
  GPU_SHARED(float, keys);  // [kTile][kHeadWidth]
  float* values = keys + kTile * kHeadWidth;
  const Head head = HeadOf(arguments);
  const size_t stride = size_t{3} * head.width;
  const float* q = arguments.qkv + head.first * stride + head.column;
  const unsigned row = BlockX() * kTile + ThreadX() / 4;
  const bool valid = row < head.context;
  Quarter query;
  Quarter gradient;
  LoadQuarter(query, q + (valid ? row : 0) * stride, valid);
  LoadQuarter(gradient,
              arguments.dmixed + (head.first + (valid ? row : 0)) * head.width + head.column,
              valid);
  const float log_sum = valid ? arguments.log_sum[head.statistics + row] : 0;
  const float delta = valid ? arguments.delta[head.statistics + row] : 0;

  Quarter out = {};
  for (unsigned first = 0; first <= BlockX() * kTile; first += kTile) {
    FillTile(keys, q + head.width, stride, first, head.context);
    FillTile(values, q + 2 * head.width, stride, first, head.context);
    SyncBlock();
    for (unsigned j = 0; j < kTile; ++j) {
      const float score = Dot(query, keys + j * kHeadWidth);
      const float dp = Dot(gradient, values + j * kHeadWidth);
      const float p = first + j > row ? 0 : Exp2(Fma(score, kScaleLog2E, -log_sum));
      AddScaled(out, p * (dp - delta), keys + j * kHeadWidth);
    }
    SyncBlock();
  }
  if (valid) StoreQuarter(out, kScale, arguments.dqkv + (head.first + row) * stride + head.column);
}

GPU_KERNEL(attention_keys_fp32, 256, AttentionKeys<float>) {
  GPU_SHARED(float, queries);  // [kTile][kHeadWidth]
  float* gradients = queries + kTile * kHeadWidth;
  const Head head = HeadOf(arguments);
  const size_t stride = size_t{3} * head.width;
  const float* q = arguments.qkv + head.first * stride + head.column;
  const float* dmixed = arguments.dmixed + head.first * head.width + head.column;
  const unsigned row = BlockX() * kTile + ThreadX() / 4;
  const bool valid = row < head.context;
  Quarter key;
  Quarter value;
  LoadQuarter(key, q + (valid ? row : 0) * stride + head.width, valid);
  LoadQuarter(value, q + (valid ? row : 0) * stride + 2 * head.width, valid);

  Quarter dkey = {};
  Quarter dvalue = {};
  for (unsigned first = BlockX() * kTile; first < head.context; first += kTile) {
    FillTile(queries, q, stride, first, head.context);
    FillTile(gradients, dmixed, head.width, first, head.context);
    SyncBlock();
    const unsigned count = head.context - first < kTile ? head.context - first : kTile;
    for (unsigned j = 0; j < count; ++j) {
      const size_t at = head.statistics + first + j;
      const float score = Dot(key, queries + j * kHeadWidth);
      const float dp = Dot(value, gradients + j * kHeadWidth);
      const float p = row > first + j ? 0 : Exp2(Fma(score, kScaleLog2E, -arguments.log_sum[at]));
      AddScaled(dvalue, p, gradients + j * kHeadWidth);
      AddScaled(dkey, p * (dp - arguments.delta[at]), queries + j * kHeadWidth);
    }
    SyncBlock();
  }
  if (!valid) return;
  float* out = arguments.dqkv + (head.first + row) * stride + head.column;
  StoreQuarter(dkey, kScale, out + head.width);
  StoreQuarter(dvalue, 1, out + 2 * head.width);
}

}  // namespace lockstep::trainer::gpu
