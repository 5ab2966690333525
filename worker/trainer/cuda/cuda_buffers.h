// Every buffer of a GPT on a GPU, cut from one piece of its memory whose size is known before it is
// taken. Sizes as in model/buffers.h; Vp is V rounded up to 128. A is the type of products'
// operands.
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_CUDA_BUFFERS_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_CUDA_BUFFERS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/trainer/cuda/device/gpt_kernels.h"
#include "worker/trainer/cuda/libraries/blas.h"
#include "worker/trainer/cuda/red_zone.h"
#include "worker/trainer/model/buffers.h"

namespace lockstep::trainer {

// Hands out aligned pieces of the GPU's memory one behind the other; without memory, only counts.
class DeviceArena {
 public:
  DeviceArena() = default;
  explicit DeviceArena(void* memory) : memory_(static_cast<std::byte*>(memory)) {}

  template <typename T>
  T* Take(size_t count) {
    const size_t bytes = count * sizeof(T);
    std::byte* at = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += BlocksOf(bytes, kAlignment) * kAlignment + kRedZone;
    if (at != nullptr) Guard(at + bytes, memory_ + used_);
    return reinterpret_cast<T*>(at);
  }
  size_t used() const { return used_; }

 private:
  static constexpr size_t kAlignment = 256;
  static_assert(kRedZone % kAlignment == 0);
  std::byte* memory_ = nullptr;
  size_t used_ = 0;
};

inline size_t PaddedVocabulary(const Dimensions& d) { return BlocksOf(d.vocabulary, 128) * 128; }

template <typename A>
struct CudaLayerBuffers {
  CudaLayerBuffers(const Dimensions& d, DeviceArena& arena)
      : mean1(arena.Take<float>(d.rows)),
        rstd1(arena.Take<float>(d.rows)),
        normal1(arena.Take<A>(d.rows * d.width)),
        qkv(arena.Take<A>(d.shards * d.rows * 3 * d.shard_width)),
        log_sum(arena.Take<float>(d.rows * d.heads)),
        mixed(arena.Take<A>(d.shards * d.rows * d.shard_width)),
        middle(arena.Take<float>(d.rows * d.width)),
        mean2(arena.Take<float>(d.rows)),
        rstd2(arena.Take<float>(d.rows)),
        normal2(arena.Take<A>(d.rows * d.width)),
        fc(arena.Take<A>(d.shards * d.rows * 4 * d.shard_width)),
        gelu(arena.Take<A>(d.shards * d.rows * 4 * d.shard_width)),
        out(arena.Take<float>(d.rows * d.width)) {}

  float* mean1;    // [N], of LayerNorm 1
  float* rstd1;    // [N]
  A* normal1;      // [N, C], its output
  A* qkv;          // [s, N, 3 D]
  float* log_sum;  // [s, B, H / S, T]
  A* mixed;        // [s, N, D], the heads' outputs
  float* middle;   // [N, C], the residual stream after attention
  float* mean2;    // [N]
  float* rstd2;    // [N]
  A* normal2;      // [N, C]
  A* fc;           // [s, N, 4 D], c_fc's output
  A* gelu;         // [s, N, 4 D]
  float* out;      // [N, C], the residual stream after the block
};

// Of a micro-batch whose backward pass is still to come.
template <typename A>
struct CudaHeldBuffers {
  CudaHeldBuffers(const Dimensions& d, DeviceArena& arena)
      : batch(arena.Take<int32_t>(BatchSize(d))), embedded(arena.Take<float>(d.rows * d.width)) {
    for (size_t l = 0; l < d.layers; ++l) layers.emplace_back(d, arena);
  }

  // What SetBatch copies at once: inputs, targets, the rows sorted by input, and where each token's
  // begin.
  static size_t BatchSize(const Dimensions& d) { return 3 * d.rows + d.vocabulary + 1; }

  int32_t* batch;   // [BatchSize]
  float* embedded;  // [N, C], what the first layer takes
  std::vector<CudaLayerBuffers<A>> layers;
};

template <typename A>
struct CudaBuffers {
  // `held`: micro-batches at a time; `heads`: of their head's gradients that are on their way.
  CudaBuffers(const Dimensions& d, size_t parameters, const Stage& stage, int held_count, int heads,
              DeviceArena& arena) {
    const size_t padded = PaddedVocabulary(d);
    const size_t head_rows = stage.last() ? d.rows : 0;
    operands = arena.Take<A>(parameters + PaddingOf(d, stage));
    for (int i = 0; i < held_count; ++i) held.emplace_back(d, arena);
    branch = arena.Take<A>(d.rows * d.width);
    mean = arena.Take<float>(head_rows);
    rstd = arena.Take<float>(head_rows);
    normal = arena.Take<A>(head_rows * d.width);
    logits = arena.Take<A>(head_rows * padded);
    losses = arena.Take<float>(head_rows);
    for (int i = 0; i < (stage.has_head_copy() ? heads : 0); ++i) {
      head_gradients.push_back(arena.Take<float>(d.vocabulary * d.width));
    }
    dx = arena.Take<float>(d.rows * d.width + d.width);
    dx_operand = arena.Take<A>(d.rows * d.width);
    dnormal = arena.Take<A>(d.rows * d.width);
    dwide = arena.Take<A>(d.shards * d.rows * 4 * d.shard_width);
    sum = arena.Take<float>(d.sharded ? d.rows * d.width : 0);
    levels = arena.Take<float>(d.levels() * d.rows * d.width);
    delta = arena.Take<float>(d.rows * d.heads);
    partial = arena.Take<float>(std::max(BlocksOf(d.rows, gpu::kNormRows) * 3 * d.width,
                                         BlocksOf(d.rows, gpu::kBiasRows) * 4 * d.width));
    dtoken = arena.Take<float>(stage.first() ? d.vocabulary * d.width : 0);
    workspace = arena.Take<std::byte>(Workspace::kBytes);
  }

  // Elements between wte's operands and what is behind them.
  static size_t PaddingOf(const Dimensions& d, const Stage& stage) {
    return stage.first() || stage.last() ? (PaddedVocabulary(d) - d.vocabulary) * d.width : 0;
  }

  A* operands;  // the parameters as the products' operands, wte padded to Vp rows
  std::vector<CudaHeldBuffers<A>> held;
  A* branch;                           // [N, C], what is added to the residual stream next
  float* mean;                         // [N], of the last LayerNorm
  float* rstd;                         // [N]
  A* normal;                           // [N, C]
  A* logits;                           // [N, Vp], then their gradient
  float* losses;                       // [N]
  std::vector<float*> head_gradients;  // each [V, C], of wte, where that is another stage's
  float* dx;             // [N, C], gradient of the residual stream, and [C], of the bias before it
  A* dx_operand;         // [N, C], the same
  A* dnormal;            // [N, C], of a LayerNorm's output; [s, N, D], of `mixed`
  A* dwide;              // [s, N, 4 D], of c_fc's output; [s, N, 3 D], of qkv
  float* sum;            // [N, C], over shards, where there are several
  float* levels;         // [levels, N, C], sums of some of the shards
  float* delta;          // [s, B, H / S, T], of attention's backward pass
  float* partial;        // sums over blocks of rows, for biases and LayerNorms
  float* dtoken;         // [V, C], the embedding's part of wte's gradient
  std::byte* workspace;  // of the products
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_CUDA_BUFFERS_H_
