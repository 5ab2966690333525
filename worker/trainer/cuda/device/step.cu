// What a step makes of its losses and gradients, and the comparison of replicas.
#include "worker/trainer/cuda/device/gpt_kernels.h"
#include "worker/trainer/cuda/device/gpu.h"

namespace lockstep::trainer::gpu {

constexpr unsigned kSumThreads = 256;

// The sum over a block's threads, as a tree; thread 0 gets it.
GPU_DEVICE double BlockSum(double* shared, double own) {
  shared[ThreadX()] = own;
  for (unsigned half = kSumThreads / 2; half > 0; half /= 2) {
    SyncBlock();
    if (ThreadX() < half) shared[ThreadX()] += shared[ThreadX() + half];
  }
  return shared[0];
}

GPU_KERNEL(mean_loss, kSumThreads, MeanLoss) {
  GPU_SHARED(double, shared);  // [kSumThreads]
  double own = 0;
  for (unsigned row = ThreadX(); row < arguments.rows; row += kSumThreads)
    own += static_cast<double>(arguments.losses[row]);
  const double sum = BlockSum(shared, own);
  if (ThreadX() == 0) *arguments.mean = static_cast<float>(sum / arguments.rows);
}

GPU_KERNEL(squared_norm, kSumThreads, SquaredNorm) {
  GPU_SHARED(double, shared);  // [kSumThreads]
  const NormPiece piece = arguments.pieces[BlockX()];
  double own = 0;
  for (size_t i = ThreadX(); i < piece.count; i += kSumThreads) {
    const auto x = static_cast<double>(arguments.x[piece.first + i]);
    own += x * x;
  }
  const double sum = BlockSum(shared, own);
  if (ThreadX() == 0) arguments.partial[BlockX()] = sum;
}

GPU_KERNEL(clip_scale, kSumThreads, ClipScale) {
  GPU_SHARED(double, shared);  // [kSumThreads]
  double own = 0;
  for (unsigned i = ThreadX(); i < arguments.parts; i += kSumThreads)
    own += arguments.partial[arguments.order[i]];
  const double sum = BlockSum(shared, own);
  if (ThreadX() > 0) return;
  constexpr double kTiny = 1e-6;  // ScaleOf's
  const double norm = Sqrt(sum) * arguments.mean;
  double clip = 1;
  if (arguments.clip > 0 && arguments.clip < norm + kTiny) clip = arguments.clip / (norm + kTiny);
  const double loss = static_cast<double>(*arguments.loss);
  arguments.scale->value = static_cast<float>(arguments.mean * clip);
  arguments.scale->finite = norm - norm == 0 && loss - loss == 0 ? 1 : 0;
  arguments.scale->norm = norm;
}

template <typename A>
GPU_DEVICE void Update(const AdamW<A>& a) {
  const size_t i = Element(kElementThreads, 4);
  if (i >= a.count || a.scale->finite == 0) return;
  const size_t at = a.first + i;
  const float scale = a.scale->value;
  const float keep = a.decays[at / kDecayGrain] != 0 ? a.keep : 1.0F;
  const Float4 g = Load4(a.gradients + i) * scale;
  const Float4 m = a.beta1 * Load4(a.moment1 + i) + (1 - a.beta1) * g;
  const Float4 v = a.beta2 * Load4(a.moment2 + i) + (1 - a.beta2) * (g * g);
  Float4 p = Load4(a.parameters + i) * keep;
  for (int j = 0; j < 4; ++j) p[j] -= a.rate * m[j] / (Sqrt(v[j]) * a.root + a.epsilon);
  Store4(a.moment1 + i, m);
  Store4(a.moment2 + i, v);
  Store4(a.parameters + i, p);
  if (a.operands != nullptr) Store4(a.operands + at + (at < a.layout.split ? 0 : a.layout.gap), p);
}
GPU_KERNEL(adamw_bf16, kElementThreads, AdamW<Bf16>) { Update(arguments); }
GPU_KERNEL(adamw_fp32, kElementThreads, AdamW<float>) { Update(arguments); }

// FNV-1a in four chains, as engine/replica.cc has it: a thread has a chain of a block of elements.
GPU_KERNEL(checksum, 32, Checksum) {
  constexpr uint64_t kOffset = 14695981039346656037ULL;
  constexpr uint64_t kPrime = 1099511628211ULL;
  const Checksum& a = arguments;
  const unsigned chain = ThreadX() % 4;
  const size_t part = size_t{BlockX()} * 8 + ThreadX() / 4;
  const size_t end = (part + 1) * kHashBlock < a.count ? (part + 1) * kHashBlock : a.count;
  uint64_t hash = kOffset + chain;
  for (size_t i = part * kHashBlock + chain; i < end; i += 4)
    hash = (hash ^ __builtin_bit_cast(uint32_t, a.x[i])) * kPrime;

  // The quad's first thread gets its neighbours' in their order.
  uint64_t whole = kOffset;
  for (unsigned other = 0; other < 4; ++other) {
    const uint64_t low = ShuffleXor(static_cast<uint32_t>(hash), other);
    const uint64_t high = ShuffleXor(static_cast<uint32_t>(hash >> 32U), other);
    whole = (whole ^ (high << 32U | low)) * kPrime;
  }
  if (chain == 0 && part < a.parts()) a.hashes[part] = whole;
}

}  // namespace lockstep::trainer::gpu
