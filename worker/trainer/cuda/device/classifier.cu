// The loss and its gradient over the vocabulary, in one kernel that keeps no probabilities.
#include "worker/trainer/cuda/device/gpt_kernels.h"
#include "worker/trainer/cuda/device/gpu.h"

namespace lockstep::trainer::gpu {

constexpr unsigned kClassifierThreads = 512;
constexpr float kLowest = -3e38F;

// The largest logit and the sum of 2^(x - largest), x = logit log2(e): of a part of a row.
struct Softmax {
  float largest;
  float sum;
};
GPU_DEVICE Softmax Joined(const Softmax& a, const Softmax& b) {
  const float largest = Max(a.largest, b.largest);
  return {largest, a.sum * Exp2(a.largest - largest) + b.sum * Exp2(b.largest - largest)};
}

// A block has a row.
template <typename A>
GPU_DEVICE void Classify(const Classifier<A>& a) {
  constexpr float kLog2E = 1.4426950408889634F;
  constexpr float kLn2 = 0.6931471805599453F;
  constexpr unsigned kWarps = kClassifierThreads / 32;
  GPU_SHARED(float, shared);  // [kWarps][2]
  A* logits = a.logits + size_t{BlockX()} * a.stride;
  const auto target = static_cast<unsigned>(a.targets[BlockX()]);
  const float of_target = Load(logits + target) * kLog2E;

  Softmax own{kLowest, 0};
  for (unsigned c = ThreadX() * 4; c < a.vocabulary; c += kClassifierThreads * 4) {
    Float4 x = Load4(logits + c) * kLog2E;
    float largest = own.largest;
    for (unsigned j = 0; j < 4; ++j) {
      if (c + j >= a.vocabulary) x[j] = kLowest;
      largest = Max(largest, x[j]);
    }
    own.sum *= Exp2(own.largest - largest);
    for (unsigned j = 0; j < 4; ++j) own.sum += Exp2(x[j] - largest);
    own.largest = largest;
  }
  for (unsigned mask = 16; mask > 0; mask /= 2)
    own = Joined(own, {ShuffleXor(own.largest, mask), ShuffleXor(own.sum, mask)});
  if (ThreadX() % 32 == 0) {
    shared[ThreadX() / 32 * 2] = own.largest;
    shared[ThreadX() / 32 * 2 + 1] = own.sum;
  }
  SyncBlock();
  Softmax all{shared[0], shared[1]};
  for (unsigned warp = 1; warp < kWarps; ++warp)
    all = Joined(all, {shared[warp * 2], shared[warp * 2 + 1]});

  if (ThreadX() == 0) a.losses[BlockX()] = (Log2(all.sum) + (all.largest - of_target)) * kLn2;
  const float factor = a.scale / all.sum;
  for (unsigned c = ThreadX() * 4; c < a.stride; c += kClassifierThreads * 4) {
    const Float4 x = Load4(logits + c) * kLog2E;
    Float4 gradient = {};
    for (unsigned j = 0; j < 4; ++j) {
      if (c + j >= a.vocabulary) continue;
      gradient[j] = Exp2(x[j] - all.largest) * factor - (c + j == target ? a.scale : 0.0F);
    }
    Store4(logits + c, gradient);
  }
}
GPU_KERNEL(classifier_bf16, kClassifierThreads, Classifier<Bf16>) { Classify(arguments); }
GPU_KERNEL(classifier_fp32, kClassifierThreads, Classifier<float>) { Classify(arguments); }

}  // namespace lockstep::trainer::gpu
