// Gpt<T> for one type of operands: the forward and backward pass. Each loop takes blocks of rows,
// heads or tiles of a weight's gradient, cut by the shape alone, to the threads.
#ifndef LOCKSTEP_WORKER_TRAINER_MODEL_NETWORK_H_
#define LOCKSTEP_WORKER_TRAINER_MODEL_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "worker/trainer/model/attention.h"
#include "worker/trainer/model/buffers.h"
#include "worker/trainer/model/kernels.h"
#include "worker/trainer/model/shape.h"
#include "worker/trainer/model/stage.h"
#include "worker/trainer/process/parallel.h"

namespace lockstep::trainer {

// Makes `sum`, of the shards here, the sum over all ranks' shards.
template <typename T>
using Share = std::function<void(std::span<T> sum)>;

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
  size_t qkv_weight, qkv_bias;    // [s, C, 3 D]
  size_t proj_weight, proj_bias;  // [s, D, C]
  size_t norm2_weight, norm2_bias;
  size_t fc_weight, fc_bias;    // [s, C, 4 D]
  size_t out_weight, out_bias;  // [s, 4 D, C]
};

template <typename T, typename A>
class Network final : public AnyNetwork<T> {
 public:
  Network(const Shape& shape, int batch, Threads& threads, const Stage& stage, int held,
          Share<T> share);

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
  // The same rows of shard `shard` in [s, N, ...].
  Rows OfShard(size_t shard, const Rows& rows) const {
    return {rows.block, shard * d_.rows + rows.first, rows.count};
  }
  // For each block of rows one step after the other, each but the first with b_.sum summed over all
  // shards: with those of other ranks only when all blocks have made their own.
  void ForRowsBetweenSums(std::initializer_list<std::function<void(const Rows&)>> steps);
  // b_.sum = the products of the shards here, as a balanced tree.
  using ShardProduct = std::function<void(size_t shard, T* out)>;
  void SumShards(const Rows& rows, const ShardProduct& product);
  void SumShards(const Rows& rows, size_t first, size_t count, size_t level, T* out,
                 const ShardProduct& product);

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
  // Where a head's first output lies in [s, N, D], and its q in [s, N, 3 D].
  struct HeadPlace {
    size_t mixed;
    size_t qkv;
  };
  void ForHeads(const Layer& layer,
                const std::function<void(const AttentionHead<T>& head, const HeadPlace& at)>& body);
  // to[N, C] = from + bias + in[s, N, k] weight[s, k, C]
  struct RowProduct {
    const A* in;
    size_t k;
    size_t weight;
    size_t bias;
    const T* from;
    T* to;
  };
  void AddProduct(const RowProduct& product, const Rows& rows);
  void AddSum(const T* from, size_t bias, T* to, const Rows& rows);
  void Project(const T* x, const LayerOffsets& at, Layer& layer, const Rows& rows);
  void Mlp(const T* x, const LayerOffsets& at, Layer& layer, const Rows& rows);
  void Head(T* logits, const Rows& rows);

  void HeadBackward(T* gradients);
  void LayerBackward(size_t l, T* gradients, const std::function<void(size_t from)>& complete);
  void TransposeWeights(const LayerOffsets& at);
  void MlpBackward(Layer& layer, const Rows& rows);
  void ProjectBackward(const LayerOffsets& at, Layer& layer, const Rows& rows);
  void QkvBackward(const Rows& rows);
  void NormBackward(const T* x, const LayerOffsets& at, Layer& layer, const Rows& rows);
  // In b_.transposed: of each kind of weight all shards, one behind the other.
  size_t Transposed(size_t before, size_t of, size_t shard) const {
    return (before * d_.shards + of * shard) * d_.width * d_.shard_width;
  }
  size_t QkvTransposed(size_t shard) const { return Transposed(0, 3, shard); }
  size_t ProjTransposed(size_t shard) const { return Transposed(3, 1, shard); }
  size_t FcTransposed(size_t shard) const { return Transposed(4, 4, shard); }
  size_t OutTransposed(size_t shard) const { return Transposed(8, 4, shard); }
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
  const Share<T> share_;
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
