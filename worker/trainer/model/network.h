// Gpt<T> for one type of operands: the forward and backward pass. Each loop takes blocks of rows,
// heads or tiles of a weight's gradient, cut by the shape alone, to the threads.
#ifndef LOCKSTEP_WORKER_TRAINER_MODEL_NETWORK_H_
#define LOCKSTEP_WORKER_TRAINER_MODEL_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "worker/trainer/model/attention.h"
#include "worker/trainer/model/buffers.h"
#include "worker/trainer/model/kernels.h"
#include "worker/trainer/model/shape.h"
#include "worker/trainer/model/stage.h"
#include "worker/trainer/parallel.h"

namespace lockstep::trainer {

// What Gpt<T> sees of it.
template <typename T>
class AnyNetwork {
 public:
  AnyNetwork() = default;
  virtual ~AnyNetwork() = default;
  AnyNetwork(const AnyNetwork&) = delete;
  AnyNetwork& operator=(const AnyNetwork&) = delete;

  virtual T Forward(const T* parameters, const int32_t* inputs, const int32_t* targets,
                    size_t slot) = 0;
  virtual void Backward(const T* parameters, T* gradients,
                        const std::function<void(size_t from)>& complete, size_t slot) = 0;
  virtual void Logits(const T* parameters, const int32_t* inputs, T* logits) = 0;
  virtual T* Entry(size_t slot) = 0;
  virtual const T* Exit(size_t slot) const = 0;
  virtual T* Gradient() = 0;
  virtual const T* HeadGradient() const = 0;
  virtual size_t bytes() const = 0;
};

// Where a block's parameters begin in the array.
struct LayerOffsets {
  // `list`, whose layer number `layer` begins behind `before` other parameters.
  LayerOffsets(const std::vector<Parameter>& list, size_t layer, size_t before = 2);

  size_t norm1_weight, norm1_bias;
  size_t qkv_weight, qkv_bias;    // [C, 3 C]
  size_t proj_weight, proj_bias;  // [C, C]
  size_t norm2_weight, norm2_bias;
  size_t fc_weight, fc_bias;    // [C, 4 C]
  size_t out_weight, out_bias;  // [4 C, C]
};

template <typename T, typename A>
class Network final : public AnyNetwork<T> {
 public:
  Network(const Shape& shape, int batch, Threads& threads, const Stage& stage, int held);

  T Forward(const T* parameters, const int32_t* inputs, const int32_t* targets,
            size_t slot) override;
  void Backward(const T* parameters, T* gradients, const std::function<void(size_t from)>& complete,
                size_t slot) override;
  void Logits(const T* parameters, const int32_t* inputs, T* logits) override;
  T* Entry(size_t slot) override { return b_.held[slot].embedded; }
  const T* Exit(size_t slot) const override { return b_.held[slot].layers.back().out; }
  T* Gradient() override { return b_.dx; }
  const T* HeadGradient() const override { return b_.head_gradient; }
  size_t bytes() const override { return arena_.used(); }
  static size_t PredictBytes(const Shape& shape, int batch, const Stage& stage, int held);

 private:
  using Layer = LayerBuffers<T, A>;

  // A block of rows: where it begins, and how many.
  struct Rows {
    size_t block;
    size_t first;
    size_t count;
  };
  void ForRows(const std::function<void(const Rows&)>& body);

  // A sum over all rows, of its parts in partial[row block, at..at + size).
  struct PartialSum {
    size_t at;
    size_t size;
    T* sum;
  };
  // dweight[in, out] = x[N, in]' dy[N, out]
  struct WeightGradient {
    const A* x;
    const A* dy;
    size_t in;
    size_t out;
    T* dweight;
  };
  // Both in one loop.
  void SumOverRows(std::span<const WeightGradient> weights, std::span<const PartialSum> sums);
  void AddUp(const PartialSum& sum);
  T* Partial(const Rows& rows) { return b_.partial + rows.block * 8 * d_.width; }

  void UseParameters(const T* parameters);
  static const A* Operands(const T* x, const A* copy);
  const A* Convert(const T* x, A* copy, const Rows& rows, size_t width);
  LayerNormState<T> Norm(size_t weight, size_t bias, T* mean, T* rstd, size_t row) const;
  LayerNormState<T> FinalNorm(size_t row) const;

  void Run(const int32_t* inputs);
  void Embed(const Rows& rows);
  void NormAndQkv(const T* x, const LayerOffsets& at, Layer& layer, const Rows& rows);
  void ForHeads(const Layer& layer,
                const std::function<void(const AttentionHead<T>& head, size_t at)>& body);
  void ProjectAndMlp(const T* x, const LayerOffsets& at, Layer& layer, const Rows& rows);
  void Head(T* logits, const Rows& rows);

  void HeadBackward(T* gradients);
  void LayerBackward(size_t l, T* gradients, const std::function<void(size_t from)>& complete);
  void TransposeWeights(const LayerOffsets& at);
  void MlpBackward(const LayerOffsets& at, Layer& layer, const Rows& rows);
  void QkvBackward(const T* x, const LayerOffsets& at, Layer& layer, const Rows& rows);
  void EmbedBackward(T* gradients);

  HeldBuffers<T, A>& held() { return b_.held[slot_]; }
  // What the head reads: the last layer's output.
  const T* LastOut() const;

  const Stage stage_;
  Dimensions d_;
  std::vector<Parameter> list_;  // what the stage owns
  const size_t parameters_count_;
  const size_t head_;  // where the head's wte lies among the parameters
  std::vector<LayerOffsets> offsets_;
  Threads& threads_;
  const KernelTable<T, A>& kernels_;
  Arena arena_;
  Buffers<T, A> b_;
  const T* parameters_ = nullptr;             // of the call
  const A* weights_ = nullptr;                // the same as products' operands
  size_t slot_ = 0;                           // of the call
  std::vector<std::vector<int32_t>> inputs_;  // [slot][N], of the first stage
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_MODEL_NETWORK_H_
