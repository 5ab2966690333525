// Every buffer of a GPT, cut from one piece of memory whose size is known before it is taken.
//
// N = B * T tokens of a micro-batch, C the width, H heads, V the vocabulary. T stands also for the
// type of sums and A for that of products' operands, as in kernels.h. A layer has S shards, s of
// them here, each with H / S heads; D = C / S.
#ifndef LOCKSTEP_WORKER_TRAINER_MODEL_BUFFERS_H_
#define LOCKSTEP_WORKER_TRAINER_MODEL_BUFFERS_H_

#include <bit>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#include "worker/trainer/model/shape.h"
#include "worker/trainer/model/stage.h"

namespace lockstep::trainer {

constexpr size_t kRowBlock = 64;         // rows that one thread takes through a layer together
constexpr size_t kAttentionGroups = 32;  // at most; each has scratch of its own
constexpr size_t kQueryBlock = 64;       // queries whose scores are held at a time

inline size_t BlocksOf(size_t n, size_t block) { return (n + block - 1) / block; }

// The sizes that buffers and loops are made of.
struct Dimensions {
  Dimensions(const Shape& shape, int batch, const Stage& stage = {})
      : batch(static_cast<size_t>(batch)),
        tokens(static_cast<size_t>(shape.context)),
        rows(this->batch * tokens),
        width(static_cast<size_t>(shape.width)),
        shards(static_cast<size_t>(stage.shards.mine())),
        sharded(stage.shards.count > 1),
        shard_width(width / static_cast<size_t>(stage.shards.count)),
        shard_heads(static_cast<size_t>(shape.heads / stage.shards.count)),
        heads(shard_heads * shards),
        head_width(shard_width / shard_heads),
        vocabulary(static_cast<size_t>(shape.vocabulary)),
        layers(static_cast<size_t>(LayersOf(shape, stage))),
        row_blocks(BlocksOf(rows, kRowBlock)),
        attention_groups(batch_heads() < kAttentionGroups ? batch_heads() : kAttentionGroups) {}

  size_t batch_heads() const { return batch * heads; }
  // Sums of shards that are under way at a time while they are added as a tree.
  size_t levels() const { return static_cast<size_t>(std::bit_width(shards)) - 1; }

  size_t batch;             // B
  size_t tokens;            // T
  size_t rows;              // N
  size_t width;             // C
  size_t shards;            // s
  bool sharded;             // whether S > 1, so that shards are summed apart
  size_t shard_width;       // D
  size_t shard_heads;       // H / S
  size_t heads;             // of all shards here
  size_t head_width;        // C / H
  size_t vocabulary;        // V
  size_t layers;            // L
  size_t row_blocks;        // of kRowBlock rows
  size_t attention_groups;  // each takes batch_heads() / this many heads, one after the other
};

// Hands out aligned pieces one behind the other; without memory, only counts.
class Arena {
 public:
  Arena() = default;
  explicit Arena(size_t bytes)
      : memory_(static_cast<std::byte*>(::operator new(bytes, std::align_val_t(kAlignment)))) {}

  template <typename T>
  T* Take(size_t count) {
    std::byte* at = memory_ == nullptr ? nullptr : memory_.get() + used_;
    used_ += BlocksOf(count * sizeof(T), kAlignment) * kAlignment;
    return reinterpret_cast<T*>(at);
  }
  size_t used() const { return used_; }

 private:
  static constexpr size_t kAlignment = 64;
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t(kAlignment)); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  size_t used_ = 0;
};

template <typename T, typename A>
struct LayerBuffers {
  LayerBuffers(const Dimensions& d, Arena& arena)
      : mean1(arena.Take<T>(d.rows)),
        rstd1(arena.Take<T>(d.rows)),
        normal1(arena.Take<A>(d.rows * d.width)),
        qkv(arena.Take<T>(d.shards * d.rows * 3 * d.shard_width)),
        log_sum(arena.Take<T>(d.rows * d.heads)),
        mixed(arena.Take<A>(d.shards * d.rows * d.shard_width)),
        middle(arena.Take<T>(d.rows * d.width)),
        mean2(arena.Take<T>(d.rows)),
        rstd2(arena.Take<T>(d.rows)),
        normal2(arena.Take<A>(d.rows * d.width)),
        gelu(arena.Take<A>(d.shards * d.rows * 4 * d.shard_width)),
        slope(arena.Take<T>(d.shards * d.rows * 4 * d.shard_width)),
        out(arena.Take<T>(d.rows * d.width)) {}

  T* mean1;    // [N], of LayerNorm 1
  T* rstd1;    // [N]
  A* normal1;  // [N, C], its output
  T* qkv;      // [s, N, 3 D]
  T* log_sum;  // [B, heads, T], log of the sum of exp(scores): enough to make them again
  A* mixed;    // [s, N, D], the heads' outputs
  T* middle;   // [N, C], the residual stream after attention
  T* mean2;    // [N]
  T* rstd2;    // [N]
  A* normal2;  // [N, C]
  A* gelu;     // [s, N, 4 D]
  T* slope;    // [s, N, 4 D], gelu' of c_fc's output
  T* out;      // [N, C], the residual stream after the block
};

// Of a micro-batch whose backward pass is still to come.
template <typename T, typename A>
struct HeldBuffers {
  HeldBuffers(const Dimensions& d, Arena& arena) : embedded(arena.Take<T>(d.rows * d.width)) {
    for (size_t l = 0; l < d.layers; ++l) layers.emplace_back(d, arena);
  }

  T* embedded;  // [N, C], what the first layer takes
  std::vector<LayerBuffers<T, A>> layers;
};

template <typename T, typename A>
struct Buffers {
  static constexpr bool kConverts = !std::is_same_v<T, A>;

  // `held`: micro-batches at a time.
  Buffers(const Dimensions& d, size_t parameters, const Stage& stage, int held_count,
          Arena& arena) {
    const size_t head_rows = stage.last() ? d.rows : 0;
    const auto copy = [&](size_t count) { return arena.Take<A>(kConverts ? count : 0); };
    weights = copy(parameters);
    for (int i = 0; i < held_count; ++i) held.emplace_back(d, arena);
    mean = arena.Take<T>(head_rows);
    rstd = arena.Take<T>(head_rows);
    normal = arena.Take<A>(head_rows * d.width);
    logits = arena.Take<T>(head_rows * d.vocabulary);
    logits_copy = copy(head_rows * d.vocabulary);
    losses = arena.Take<T>(head_rows);
    head_gradient = arena.Take<T>(stage.has_head_copy() ? d.vocabulary * d.width : 0);
    dx = arena.Take<T>(d.rows * d.width);
    dx_copy = copy(d.rows * d.width);
    dmiddle = arena.Take<T>(d.rows * d.width);
    dmiddle_copy = copy(d.rows * d.width);
    dwide = arena.Take<T>(d.shards * d.rows * 4 * d.shard_width);
    dwide_copy = copy(d.shards * d.rows * 4 * d.shard_width);
    dnormal = arena.Take<T>(d.rows * d.width);
    sum = d.sharded ? arena.Take<T>(d.rows * d.width) : dnormal;
    levels = arena.Take<T>(d.levels() * d.rows * d.width);
    transposed = arena.Take<A>(d.shards * 12 * d.width * d.shard_width);
    partial = arena.Take<T>(d.row_blocks * 8 * d.width);
    scores = arena.Take<T>(d.attention_groups * AttentionScratch(d));
  }

  static size_t AttentionScratch(const Dimensions& d) {
    return kQueryBlock * (2 * d.tokens + d.head_width);
  }

  A* weights;  // the parameters, converted (where A is not T)
  std::vector<HeldBuffers<T, A>> held;
  T* mean;           // [N], of the last LayerNorm
  T* rstd;           // [N]
  A* normal;         // [N, C]
  T* logits;         // [N, V], and at once their gradient
  A* logits_copy;    // [N, V], converted
  T* losses;         // [N]
  T* head_gradient;  // [V, C], the head's part of wte's gradient, where that is another stage's
  T* dx;             // [N, C], gradient of a block's output, then of its input
  A* dx_copy;        // [N, C], converted
  T* dmiddle;        // [N, C], of `middle`
  A* dmiddle_copy;   // [N, C], converted
  T* dwide;          // [s, N, 4 D], of c_fc's output; [s, N, 3 D], of qkv
  A* dwide_copy;     // the same, converted
  T* dnormal;        // [N, C], of the last LayerNorm's output; [s, N, D], of `mixed`
  T* sum;            // [N, C], over shards; in backward of a LayerNorm's output, too
  T* levels;         // [levels, N, C], sums of some of the shards
  A* transposed;     // one block's four weight matrices, of each shard, transposed
  T* partial;        // [row blocks, 8 C], sums over a row block, for biases and LayerNorms
  T* scores;         // [attention groups, kQueryBlock (2 T + C / H)]
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_MODEL_BUFFERS_H_
