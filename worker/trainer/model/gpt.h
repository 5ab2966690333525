// The GPT-2 decoder: forward and backward of one micro-batch, written out.
//
//   Gpt<float> model(shape, batch, Precision::kFp32, threads);
//   float loss = model.Forward(parameters, inputs, targets);
//   model.Backward(parameters, gradients, [&](size_t from) { /* gradients[from..] are final */ });
//
// The bits of both depend on the shape, the batch, the precision and the CPU's instruction set, and
// on nothing else: not on the number of threads, nor on what ran before. Gpt<double> is the same
// code, for the finite-difference tests. Not thread-safe.
#ifndef LOCKSTEP_WORKER_TRAINER_MODEL_GPT_H_
#define LOCKSTEP_WORKER_TRAINER_MODEL_GPT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "core/model/trainer.h"
#include "worker/trainer/model/shape.h"
#include "worker/trainer/model/stage.h"
#include "worker/trainer/process/parallel.h"

namespace lockstep::trainer {

// Of the matrix products' inputs; everything is summed and kept in fp32.
using core::Precision;

// kInvalid, with what to do, on a CPU without AVX512_BF16 or AMX.
Status CheckPrecision(Precision precision);

// "avx512_core_bf16", ...: what the products and our own kernels were built for and use here. Bits
// can be compared where it is equal.
std::string InstructionSet();

template <typename T>
class Gpt {
 public:
  // batch: sequences in a micro-batch (B), of shape.context tokens each (T). Of a stage, `held`
  // micro-batches may have gone forward and not yet backward, each in a slot of its own.
  // share: of a stage whose shards several ranks have, makes a sum over the shards here that over
  // all, as a balanced tree over the ranks; it is called from the caller's thread.
  using Share = std::function<void(std::span<T> sum)>;
  Gpt(const Shape& shape, int batch, Precision precision, Threads& threads, const Stage& stage = {},
      int held = 1, Share share = {});
  ~Gpt();
  Gpt(const Gpt&) = delete;
  Gpt& operator=(const Gpt&) = delete;

  // parameters: as Parameters() arranges them, and behind them the stage's copy of wte. inputs,
  // targets: [B, T], each in [0, V); inputs are the first stage's, targets the last one's. Returns
  // the mean cross entropy over B * T tokens, and 0 where that is a later stage's. What Backward
  // needs is kept.
  T Forward(std::span<const T> parameters, std::span<const int32_t> inputs,
            std::span<const int32_t> targets, size_t slot = 0);

  // The gradient of the last Forward's loss in this slot, overwriting `gradients`, which are of
  // what the stage owns. `complete(from)` says that gradients[from..] are final, with falling
  // `from`, the last time 0; it is called from the caller's thread. The last stage goes backward
  // right after it went forward.
  void Backward(std::span<const T> parameters, std::span<T> gradients,
                const std::function<void(size_t from)>& complete, size_t slot = 0);

  // What stages hand each other. [N, C]: what another stage made, before Forward; what this one
  // made, after it.
  std::span<T> Entry(size_t slot);
  std::span<const T> Exit(size_t slot) const;
  // [N, C]: before Backward the gradient of Exit, after it that of Entry.
  std::span<T> Gradient();
  // [V, C]: of a last stage that is not the first: after Backward, its part of wte's gradient. The
  // first stage takes it in `gradients`, before Backward.
  std::span<const T> HeadGradient() const;

  // The logits [B, T, V] of `inputs`, for tests and for scoring; nothing is kept.
  void Logits(std::span<const T> parameters, std::span<const int32_t> inputs, std::span<T> logits);

  // Of all buffers held here, fixed at construction.
  size_t ActivationBytes() const;
  // What ActivationBytes() of such a model will be, before it is made.
  static size_t PredictActivationBytes(const Shape& shape, int batch, Precision precision,
                                       const Stage& stage = {}, int held = 1);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// GPT-2's: normal(0, 0.02), residual projections by 1/sqrt(2 L), biases 0, LayerNorm 1; the same on
// every machine for one seed.
void InitialiseParameters(const Shape& shape, uint64_t seed, std::span<float> parameters);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_MODEL_GPT_H_
