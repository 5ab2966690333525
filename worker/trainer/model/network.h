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

  virtual T Forward(const T* parameters, const int32_t* inputs, const int32_t* targets) = 0;
  virtual void Backward(const T* parameters, T* gradients,
                        const std::function<void(size_t from)>& complete) = 0;
  virtual void Logits(const T* parameters, const int32_t* inputs, T* logits) = 0;
  virtual size_t bytes() const = 0;
};

// Where a block's parameters begin in the array.
struct LayerOffsets {
  LayerOffsets(const std::vector<Parameter>& list, size_t layer);

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
  Network(const Shape& shape, int batch, Threads& threads);

  T Forward(const T* parameters, const int32_t* inputs, const int32_t* targets) override;
  void Backward(const T* parameters, T* gradients,
                const std::function<void(size_t from)>& complete) override;
  void Logits(const T* parameters, const int32_t* inputs, T* logits) override;
  size_t bytes() const override { return arena_.used(); }
  static size_t PredictBytes(const Shape& shape, int batch);

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

  Dimensions d_;
  std::vector<Parameter> list_;
  std::vector<LayerOffsets> offsets_;
  Threads& threads_;
  const KernelTable<T, A>& kernels_;
  Arena arena_;
  Buffers<T, A> b_;
  const T* parameters_ = nullptr;  // of the call
  const A* weights_ = nullptr;     // the same as products' operands
  std::vector<int32_t> inputs_;    // [N], of the last Forward
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_MODEL_NETWORK_H_
