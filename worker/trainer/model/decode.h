// Decoder: a GPT-2 for generation, which reads one token at a time and returns the logits of the
// next. It keeps the keys and values of the tokens read, so a step costs one pass over the
// parameters.
//
//   Decoder decoder(shape, parameters, threads);
//   for (int32_t token : prompt) logits = decoder.Step(token);
#ifndef LOCKSTEP_WORKER_TRAINER_MODEL_DECODE_H_
#define LOCKSTEP_WORKER_TRAINER_MODEL_DECODE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "worker/trainer/model/kernels.h"
#include "worker/trainer/model/shape.h"
#include "worker/trainer/process/parallel.h"

namespace lockstep::trainer {

// What generation asks of a model, wherever it computes.
class TokenReader {
 public:
  virtual ~TokenReader() = default;
  // Forgets all tokens.
  virtual void Reset() = 0;
  // The logits [V] of what follows `tokens`, at least one, and those read before: as
  // Decoder::Step's of the last.
  virtual Result<std::span<const float>> Read(std::span<const int32_t> tokens) = 0;
};

// Not thread-safe. `parameters`, as Parameters() arranges them, and `threads` outlive it.
class Decoder final : public TokenReader {
 public:
  Decoder(const Shape& shape, std::span<const float> parameters, Threads& threads);

  // The logits [V] of what follows `token`, in [0, V), valid until the next call. When the context
  // is full, the older half of it is forgotten and the newer half read again from position 0.
  std::span<const float> Step(int32_t token);

  void Reset() override { read_.clear(); }
  Result<std::span<const float>> Read(std::span<const int32_t> tokens) override;

  // Tokens that the next step will see before its own.
  size_t position() const { return read_.size(); }

 private:
  // y[columns] = x[rows] weight[rows, columns] + bias[columns], and with `add` + y.
  void Linear(std::span<const float> x, size_t weight, size_t bias, std::span<float> y, bool add);
  void Normalise(size_t weight, size_t bias);
  void Attend(size_t layer);
  void Head();
  void Advance(int32_t token);

  Shape shape_;
  std::span<const float> parameters_;
  Threads& threads_;
  const KernelTable<float, float>& kernels_;
  std::vector<Parameter> list_;
  std::vector<int32_t> read_;  // tokens whose keys and values are kept
  std::vector<float> keys_;    // [L, T, C]
  std::vector<float> values_;  // [L, T, C]
  std::vector<float> x_;       // [C], the residual stream
  std::vector<float> normal_;  // [C], normalised
  std::vector<float> qkv_;     // [3 C]
  std::vector<float> mixed_;   // [C], the heads' outputs
  std::vector<float> wide_;    // [4 C]
  std::vector<float> slope_;   // [4 C], of gelu; not used
  std::vector<float> scores_;  // [H, T]
  std::vector<float> logits_;  // [V]
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_MODEL_DECODE_H_
