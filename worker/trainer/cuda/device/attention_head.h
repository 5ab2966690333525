// What the attention kernels of both precisions begin with. Device code.
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_DEVICE_ATTENTION_HEAD_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_DEVICE_ATTENTION_HEAD_H_

#include "worker/trainer/cuda/device/gpt_kernels.h"
#include "worker/trainer/cuda/device/gpu.h"

namespace lockstep::trainer::gpu {

constexpr unsigned kTile = kAttentionTile;
constexpr float kScale = 0.125F;  // 1 / sqrt(kHeadWidth)
constexpr float kScaleLog2E = 0.125F * 1.4426950408889634F;
constexpr float kMasked = -1e30F;

// Where a block's head lies.
struct Head {
  unsigned context;
  unsigned width;     // C
  size_t first;       // row of the sequence's first token
  unsigned column;    // of the head in C
  size_t statistics;  // of its first row in [B, H, T]
};
template <typename Arguments>
GPU_DEVICE Head HeadOf(const Arguments& a) {
  const unsigned width = a.heads * kHeadWidth;
  return {a.context, width, size_t{BlockY() / a.heads} * a.context, BlockY() % a.heads * kHeadWidth,
          size_t{BlockY()} * a.context};
}

}  // namespace lockstep::trainer::gpu

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_DEVICE_ATTENTION_HEAD_H_
