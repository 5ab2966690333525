// Every buffer of a GPT on a GPU, cut from one piece of its memory whose size is known before it is
// taken. Sizes as in model/buffers.h; Vp is V rounded up to 128. A is the type of products'
// operands.
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_CUDA_BUFFERS_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_CUDA_BUFFERS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/trainer/cuda/blas.h"
#include "worker/trainer/cuda/gpt_kernels.h"
#include "worker/trainer/model/buffers.h"

namespace lockstep::trainer {

// Hands out aligned pieces of the GPU's memory one behind the other; without memory, only counts.
class DeviceArena {
 public:
  DeviceArena() = default;
  explicit DeviceArena(void* memory) : memory_(static_cast<std::byte*>(memory)) {}

  template <typename T>
  T* Take(size_t count) {
    std::byte* at = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += BlocksOf(count * sizeof(T), kAlignment) * kAlignment;
    return reinterpret_cast<T*>(at);
  }
  size_t used() const { return used_; }

 private:
  static constexpr size_t kAlignment = 256;
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
        qkv(arena.Take<A>(d.rows * 3 * d.width)),
        log_sum(arena.Take<float>(d.rows * d.heads)),
        mixed(arena.Take<A>(d.rows * d.width)),
        middle(arena.Take<float>(d.rows * d.width)),
        mean2(arena.Take<float>(d.rows)),
        rstd2(arena.Take<float>(d.rows)),
        normal2(arena.Take<A>(d.rows * d.width)),
        fc(arena.Take<A>(d.rows * 4 * d.width)),
        gelu(arena.Take<A>(d.rows * 4 * d.width)),
        out(arena.Take<float>(d.rows * d.width)) {}

  float* mean1;    // [N], of LayerNorm 1
  float* rstd1;    // [N]
  A* normal1;      // [N, C], its output
  A* qkv;          // [N, 3 C]
  float* log_sum;  // [B, H, T]
  A* mixed;        // [N, C], the heads' outputs
  float* middle;   // [N, C], the residual stream after attention
  float* mean2;    // [N]
  float* rstd2;    // [N]
  A* normal2;      // [N, C]
  A* fc;           // [N, 4 C], c_fc's output
  A* gelu;         // [N, 4 C]
  float* out;      // [N, C], the residual stream after the block
};

template <typename A>
struct CudaBuffers {
  CudaBuffers(const Dimensions& d, size_t parameters, DeviceArena& arena) {
    const size_t padded = PaddedVocabulary(d);
    operands = arena.Take<A>(parameters + (padded - d.vocabulary) * d.width);
    batch = arena.Take<int32_t>(BatchSize(d));
    embedded = arena.Take<float>(d.rows * d.width);
    for (size_t l = 0; l < d.layers; ++l) layers.emplace_back(d, arena);
    branch = arena.Take<A>(d.rows * d.width);
    mean = arena.Take<float>(d.rows);
    rstd = arena.Take<float>(d.rows);
    normal = arena.Take<A>(d.rows * d.width);
    logits = arena.Take<A>(d.rows * padded);
    losses = arena.Take<float>(d.rows);
    dx = arena.Take<float>(d.rows * d.width);
    dx_operand = arena.Take<A>(d.rows * d.width);
    dnormal = arena.Take<A>(d.rows * d.width);
    dwide = arena.Take<A>(d.rows * 4 * d.width);
    delta = arena.Take<float>(d.rows * d.heads);
    partial = arena.Take<float>(std::max(BlocksOf(d.rows, gpu::kNormRows) * 3 * d.width,
                                         BlocksOf(d.rows, gpu::kBiasRows) * 4 * d.width));
    dtoken = arena.Take<float>(d.vocabulary * d.width);
    workspace = arena.Take<std::byte>(Workspace::kBytes);
  }

  // What SetBatch copies at once: inputs, targets, the rows sorted by input, and where each token's
  // begin.
  static size_t BatchSize(const Dimensions& d) { return 3 * d.rows + d.vocabulary + 1; }

  A* operands;      // the parameters as the products' operands, wte padded to Vp rows
  int32_t* batch;   // [BatchSize]
  float* embedded;  // [N, C]
  std::vector<CudaLayerBuffers<A>> layers;
  A* branch;             // [N, C], what is added to the residual stream next
  float* mean;           // [N], of the last LayerNorm
  float* rstd;           // [N]
  A* normal;             // [N, C]
  A* logits;             // [N, Vp], then their gradient
  float* losses;         // [N]
  float* dx;             // [N, C], gradient of the residual stream
  A* dx_operand;         // [N, C], the same
  A* dnormal;            // [N, C], of a LayerNorm's output, of `mixed`
  A* dwide;              // [N, 4 C], of c_fc's output; [N, 3 C], of qkv
  float* delta;          // [B, H, T], of attention's backward pass
  float* partial;        // sums over blocks of rows, for biases and LayerNorms
  float* dtoken;         // [V, C], the embedding's part of wte's gradient
  std::byte* workspace;  // of the products
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_CUDA_BUFFERS_H_
