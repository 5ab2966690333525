// The GPT's kernels as both sides see them: the host, which launches them, and the device code,
// which is them. Each takes one struct by value: its arguments, its name, and shape(), what it is
// launched with. Device pointers throughout.
//
//   kernels.Launch(gpu::Gelu<Bf16>{.x = fc, .y = gelu, .count = rows * 4 * width});
//
// N = rows = B * T; C = width, a multiple of 64; H heads of 64; V = vocabulary; all row-major. A is
// the type of products' operands: Bf16 or float. The residual stream, its gradient, master
// parameters, moments, gradients and sums are fp32: a bf16 stream would round a sum of 2 L terms L
// times, and costs 12 % less memory only. Pointers and rows are aligned to 16 bytes; counts are
// multiples of 4, but where said otherwise.
//
// Every sum has a fixed order that follows from the sizes alone; nothing is added atomically. So
// the same inputs give the same bits, whatever the order in which blocks and warps run.
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_DEVICE_GPT_KERNELS_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_DEVICE_GPT_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "worker/trainer/model/bf16.h"

namespace lockstep::trainer::gpu {

// Blocks of `threads` threads, each with shared memory that it does not share with others; at most
// 48 KiB, what every GPU gives without being asked.
struct LaunchShape {
  unsigned blocks_x = 1;
  unsigned blocks_y = 1;  // at most 65535
  unsigned threads = 32;
  unsigned shared_bytes = 0;
};

constexpr unsigned kHeadWidth = 64;      // the only one
constexpr unsigned kMaxWidth = 3072;     // C, for the shared memory of the LayerNorms
constexpr unsigned kAttentionTile = 64;  // queries of a block, and keys that it takes at a time
constexpr unsigned kElementThreads = 256;
constexpr unsigned kNormWarps = 4;   // of a block; a warp takes one row
constexpr unsigned kNormRows = 64;   // that a block of NormBackward sums
constexpr unsigned kBiasRows = 256;  // that a block of BiasBackward sums
constexpr unsigned kTokenThreads = 256;
constexpr unsigned kSumColumns = 32;        // that a block of ColumnSums makes
constexpr unsigned kNormBlock = 1U << 14U;  // most elements that a block of SquaredNorm sums
constexpr unsigned kHashBlock = 1U << 16U;  // elements of one hash, as HashOf has it
constexpr unsigned kDecayGrain = 64;        // elements that decay alike

constexpr unsigned Blocks(size_t n, size_t block) {
  return static_cast<unsigned>((n + block - 1) / block);
}
template <typename A>
constexpr const char* Named(const char* bf16, const char* fp32) {
  return std::is_same_v<A, Bf16> ? bf16 : fp32;
}
// One thread for `each` of `count` elements.
constexpr LaunchShape Elements(size_t count, size_t each) {
  return {.blocks_x = Blocks(count, each * kElementThreads), .threads = kElementThreads};
}

// Where the operands of a range of the model's array lie. Rows of wte are padded: from element
// `split` on (V C), operands lie `gap` elements ((Vp - V) C) further. Both are multiples of 64.
struct OperandLayout {
  size_t split = 0;
  size_t gap = 0;
};

// Forward.

// to[i] = from[i], placed by `layout`; the gap becomes 0. Of the whole array of parameters.
template <typename A>
struct ConvertParameters {
  static constexpr const char* kName =
      Named<A>("convert_parameters_bf16", "convert_parameters_fp32");
  const float* from;  // [count]
  A* to;              // [count + layout.gap]
  size_t count;
  OperandLayout layout;
  constexpr LaunchShape shape() const { return Elements(count + layout.gap, 4); }
};

// x = wte[token] + wpe[row % T]
struct Embed {
  static constexpr const char* kName = "embed";
  const int32_t* tokens;  // [N]
  const float* wte;       // [V, C]
  const float* wpe;       // [T, C]
  float* x;               // [N, C]
  unsigned rows, context, width;
  constexpr LaunchShape shape() const { return Elements(size_t{rows} * width, 4); }
};

// sum = x + y; normal = (sum - mean) rstd weight + bias. Without y, normal is x's and sum unused.
template <typename A>
struct ResidualNorm {
  static constexpr const char* kName = Named<A>("residual_norm_bf16", "residual_norm_fp32");
  const float* x;       // [N, C]
  const A* y;           // [N, C], a product with its bias added; or null
  float* sum;           // [N, C]; may be x
  A* normal;            // [N, C]
  float* mean;          // [N]
  float* rstd;          // [N]
  const float* weight;  // [C]
  const float* bias;    // [C]
  unsigned rows, width;
  constexpr LaunchShape shape() const {
    return {.blocks_x = Blocks(rows, kNormWarps),
            .threads = 32 * kNormWarps,
            .shared_bytes = kNormWarps * width * 4};
  }
};

// sum = x + y alone, of the last block's output when it is not normalised at once.
template <typename A>
struct ResidualAdd {
  static constexpr const char* kName = Named<A>("residual_add_bf16", "residual_add_fp32");
  const float* x;
  const A* y;
  float* sum;  // may be x
  size_t count;
  constexpr LaunchShape shape() const { return Elements(count, 4); }
};

// y = x + bias in every row, or x: a sum over shards as what comes next reads it.
template <typename A>
struct AddBias {
  static constexpr const char* kName = Named<A>("add_bias_bf16", "add_bias_fp32");
  const float* x;     // [N, width]
  const float* bias;  // [width], or null
  A* y;               // [N, width]
  unsigned rows, width;
  constexpr LaunchShape shape() const { return Elements(size_t{rows} * width, 4); }
};

// y = gelu(x), by tanh as GPT-2 has it.
template <typename A>
struct Gelu {
  static constexpr const char* kName = Named<A>("gelu_bf16", "gelu_fp32");
  const A* x;
  A* y;
  size_t count;
  constexpr LaunchShape shape() const { return Elements(count, 8); }  // multiple of 8
};

// A block takes a tile of queries or of keys of one head, and goes through the other's tiles.
template <typename A>
constexpr LaunchShape AttentionShape(unsigned batch, unsigned context, unsigned heads) {
  constexpr bool kBf16 = std::is_same_v<A, Bf16>;
  constexpr unsigned kRow = kBf16 ? (kHeadWidth + 8) * 2 : kHeadWidth * 4;  // bytes
  return {.blocks_x = Blocks(context, kAttentionTile),
          .blocks_y = batch * heads,
          .threads = kBf16 ? 128 : 256,
          .shared_bytes = (kBf16 ? 4 : 2) * kAttentionTile * kRow};
}

// mixed = softmax(q k' / 8) v, causal, by heads.
template <typename A>
struct Attention {
  static constexpr const char* kName = Named<A>("attention_bf16", "attention_fp32");
  const A* qkv;    // [N, 3 C]: q, k, v; each [H, 64]
  A* mixed;        // [N, C]
  float* log_sum;  // [B, H, T], base 2: of the sum of exp(q k' / 8) over the keys
  unsigned batch, context, heads;
  constexpr LaunchShape shape() const { return AttentionShape<A>(batch, context, heads); }
};

// Of each row: losses = -log softmax(logits)[target]; logits become their gradient, times `scale`.
template <typename A>
struct Classifier {
  static constexpr const char* kName = Named<A>("classifier_bf16", "classifier_fp32");
  A* logits;               // [N, stride]; what lies behind V in a row is ignored and becomes 0
  const int32_t* targets;  // [N]
  float* losses;           // [N]
  float scale;             // 1 / N
  unsigned rows, vocabulary, stride;  // stride: a multiple of 8
  constexpr LaunchShape shape() const {
    return {.blocks_x = rows, .threads = 512, .shared_bytes = 2 * 16 * 4};
  }
};

// mean = the losses' mean, summed in double.
struct MeanLoss {
  static constexpr const char* kName = "mean_loss";
  const float* losses;  // [N]
  float* mean;          // [1]
  unsigned rows;        // any
  constexpr LaunchShape shape() const {
    return {.threads = kElementThreads, .shared_bytes = kElementThreads * 8};
  }
};

// Backward.

// dx = dy gelu'(x); dx may be dy.
template <typename A>
struct GeluBackward {
  static constexpr const char* kName = Named<A>("gelu_backward_bf16", "gelu_backward_fp32");
  const A* x;  // of the forward pass
  const A* dy;
  A* dx;
  size_t count;
  constexpr LaunchShape shape() const { return Elements(count, 8); }  // multiple of 8
};

// dx = residual + the gradient of LayerNorm's input. partial holds, for each kNormRows rows, the
// sums over them of dnormal's parts of the gradients of weight and bias, and of dx: the gradient of
// the bias of the product whose output was added to the residual stream here. ColumnSums adds them
// up.
template <typename A>
struct NormBackward {
  static constexpr const char* kName = Named<A>("norm_backward_bf16", "norm_backward_fp32");
  const A* dnormal;       // [N, C]
  const float* x;         // [N, C], what was normalised
  const float* mean;      // [N]
  const float* rstd;      // [N]
  const float* weight;    // [C]
  const float* residual;  // [N, C], or null for 0
  float* dx;              // [N, C]; may be residual
  A* dx_operand;          // [N, C], the same as a product's operand; or null
  float* partial;         // [parts()][3][C]
  unsigned rows, width;
  constexpr unsigned parts() const { return Blocks(rows, kNormRows); }
  constexpr LaunchShape shape() const {
    return {.blocks_x = parts(), .threads = 256, .shared_bytes = (3 * width + 2 * 8) * 4};
  }
};

// partial = sums of dy over each kBiasRows rows.
template <typename A>
struct BiasBackward {
  static constexpr const char* kName = Named<A>("bias_backward_bf16", "bias_backward_fp32");
  const A* dy;           // [N, width]
  float* partial;        // [parts()][width]
  unsigned rows, width;  // width: a multiple of 64
  constexpr unsigned parts() const { return Blocks(rows, kBiasRows); }
  constexpr LaunchShape shape() const {
    return {.blocks_x = Blocks(width, 64),
            .blocks_y = parts(),
            .threads = 256,
            .shared_bytes = 16 * 64 * 4};
  }
};

// sums[group] = the sum of partial[..][group] over the parts.
struct ColumnSums {
  static constexpr const char* kName = "column_sums";
  const float* partial;  // [parts][groups][width]
  float* sums[3];        // each [width], of the first `groups`; null: not wanted
  unsigned parts, groups, width;
  constexpr LaunchShape shape() const {
    return {.blocks_x = Blocks(width, kSumColumns),
            .blocks_y = groups,
            .threads = 256,
            .shared_bytes = 8 * kSumColumns * 4};
  }
};

// delta = the sum over a head's output of dmixed * mixed, which both of the next want.
template <typename A>
struct AttentionDelta {
  static constexpr const char* kName = Named<A>("attention_delta_bf16", "attention_delta_fp32");
  const A* mixed;   // [N, C]
  const A* dmixed;  // [N, C]
  float* delta;     // [B, H, T]
  unsigned batch, context, heads;
  constexpr LaunchShape shape() const {
    return {.blocks_x = Blocks(size_t{batch} * context * heads, 8), .threads = 256};
  }
};

// The gradients of q, and of k and v: two kernels, each of which sums in the order of the tokens
// and writes its columns of dqkv. That makes the scores twice, which is the price of no atomic
// sums.
template <typename A>
struct AttentionGradients {
  const A* qkv;          // [N, 3 C]
  const A* dmixed;       // [N, C]
  const float* log_sum;  // [B, H, T]
  const float* delta;    // [B, H, T]
  A* dqkv;               // [N, 3 C]
  unsigned batch, context, heads;
  constexpr LaunchShape shape() const { return AttentionShape<A>(batch, context, heads); }
};
template <typename A>
struct AttentionQueries : AttentionGradients<A> {
  static constexpr const char* kName = Named<A>("attention_queries_bf16", "attention_queries_fp32");
};
template <typename A>
struct AttentionKeys : AttentionGradients<A> {
  static constexpr const char* kName = Named<A>("attention_keys_bf16", "attention_keys_fp32");
};

// The embedding's part of wte's gradient, apart from the head's: dwte[token] = the sum of dx over
// the rows that hold it, in an order that follows from their number; 0 where none does. The host
// sorts rows by token.
struct TokenBackward {
  static constexpr const char* kName = "token_backward";
  const float* dx;        // [N, C]
  const int32_t* rows;    // [N]: those of token 0, in order, then those of token 1, ...
  const int32_t* starts;  // [V + 1]: where each token's begin in `rows`
  float* dwte;            // [V, C]
  unsigned vocabulary, width;
  constexpr LaunchShape shape() const {
    return {.blocks_x = vocabulary, .threads = kTokenThreads, .shared_bytes = kTokenThreads * 16};
  }
};

// dwpe[t] = the sum of dx over the sequences, in their order.
struct PositionBackward {
  static constexpr const char* kName = "position_backward";
  const float* dx;  // [N, C]
  float* dwpe;      // [T, C]
  unsigned batch, context, width;
  constexpr LaunchShape shape() const { return Elements(size_t{context} * width, 4); }
};

// The step.

// sum += part
struct TreeAdd {
  static constexpr const char* kName = "tree_add";
  float* sum;
  const float* part;
  size_t count;  // any
  constexpr LaunchShape shape() const { return Elements(count, 4); }
};

// to = from
struct Copy {
  static constexpr const char* kName = "copy";
  const float* from;
  float* to;
  size_t count;  // any
  constexpr LaunchShape shape() const { return Elements(count, 4); }
};

// sum = the balanced tree over parts 0..n-1 of the same slice, as Gloo's Reduce::kTree has it: the
// tree of the first half, the larger for an odd n, + the tree of the rest. sum may be one of the
// parts.
struct SliceSum {
  static constexpr const char* kName = "slice_sum";
  const float* parts;  // [n][stride]
  float* sum;          // [count]
  size_t count;        // any
  size_t stride;
  unsigned n;  // at most 4096
  constexpr LaunchShape shape() const { return Elements(count, 1); }
};

// Elements of an array: part of one parameter, and of one of its shards.
struct NormPiece {
  size_t first;
  size_t count;  // at most kNormBlock
};

// partial = the sum of squares, in double, of each piece.
struct SquaredNorm {
  static constexpr const char* kName = "squared_norm";
  const float* x;
  const NormPiece* pieces;  // [parts]
  double* partial;          // [parts]
  unsigned parts;
  constexpr LaunchShape shape() const {
    return {.blocks_x = parts, .threads = 256, .shared_bytes = 256 * 8};
  }
};

// What AdamW multiplies each gradient by, as ScaleOf (engine/sync.h) has it, and what the host
// reads once a step.
struct StepScale {
  float value;      // 1 / micro-batches, and the clipping
  uint32_t finite;  // 0 where the loss or the norm is no finite number: AdamW then does nothing
  double norm;      // of the mean gradient
};
struct ClipScale {
  static constexpr const char* kName = "clip_scale";
  const double* partial;  // of SquaredNorm, here and elsewhere
  const uint32_t* order;  // [parts]: where in `partial` each piece of the model lies
  const float* loss;      // [1], summed over the micro-batches
  StepScale* scale;       // [1]
  unsigned parts;
  double mean;  // 1 / micro-batches
  double clip;  // 0: off
  constexpr LaunchShape shape() const { return {.threads = 256, .shared_bytes = 256 * 8}; }
};

// One update of a range of the model's array, as model/adamw.h has it. Also writes the operands'
// copy.
template <typename A>
struct AdamW {
  static constexpr const char* kName = Named<A>("adamw_bf16", "adamw_fp32");
  float* parameters;  // these four, of the range: [count]
  const float* gradients;
  float* moment1;
  float* moment2;
  A* operands;  // of the whole array, by `layout`; or null
  const uint8_t*
      decays;  // of the whole array: one for each kDecayGrain elements, 1 where they decay
  const StepScale* scale;  // [1]
  size_t first, count;     // the range in the whole array: multiples of 4
  OperandLayout layout;
  float keep;  // 1 - learning rate * weight decay
  float beta1, beta2;
  float rate;  // learning rate / (1 - beta1^t)
  float root;  // 1 / sqrt(1 - beta2^t)
  float epsilon;
  constexpr LaunchShape shape() const { return Elements(count, 4); }
};

// hashes = the hash of the bits of each kHashBlock elements; HashOf (engine/replica.h) mixes them.
struct Checksum {
  static constexpr const char* kName = "checksum";
  const float* x;
  uint64_t* hashes;  // [parts()]
  size_t count;      // any
  constexpr unsigned parts() const { return Blocks(count, kHashBlock); }
  constexpr LaunchShape shape() const { return {.blocks_x = Blocks(parts(), 8), .threads = 32}; }
};

}  // namespace lockstep::trainer::gpu

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_DEVICE_GPT_KERNELS_H_
