// CudaGpt for one type of operands: what it holds, and the order of its kernels.
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_CUDA_NETWORK_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_CUDA_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "worker/trainer/cuda/cuda_buffers.h"
#include "worker/trainer/cuda/cuda_gpt.h"
#include "worker/trainer/cuda/libraries/blas.h"
#include "worker/trainer/cuda/pinned_memory.h"
#include "worker/trainer/model/bf16.h"
#include "worker/trainer/model/network.h"

namespace lockstep::trainer {

// The three products of a linear map [in, out] of the model.
struct LinearProducts {
  size_t forward = 0;
  size_t input_gradient = 0;
  size_t weight_gradient = 0;
};

template <typename A>
constexpr core::Precision kPrecision =
    std::is_same_v<A, Bf16> ? core::Precision::kBf16 : core::Precision::kFp32;

template <typename A>
class CudaNetwork final : public CudaGpt {
 public:
  static Result<std::unique_ptr<CudaGpt>> Create(
      const std::shared_ptr<const collectives::CudaDevice>& device,
      std::shared_ptr<const BlasLibrary> library, Kernels kernels, const CudaGptOptions& options);
  static size_t PredictBytes(const CudaGptOptions& options);

  void ShareBy(std::function<Status(std::span<float> sum)> share) override {
    share_ = std::move(share);
  }
  Kernels& kernels() override { return kernels_; }
  size_t bytes() const override { return memory_.size(); }
  CudaOperands operands() const override { return {kPrecision<A>, b_.operands, layout_}; }

  Status UpdateOperands() override;
  Status UpdateHead() override;
  Status SetBatch(std::span<const int32_t> inputs, std::span<const int32_t> targets,
                  size_t slot) override;
  Status Forward(float* loss, size_t slot) override;
  Status Backward(float* gradients, const std::function<void(size_t from)>& complete, size_t slot,
                  size_t head) override;
  std::span<float> Entry(size_t slot) override { return {b_.held[slot].embedded, stream_size()}; }
  std::span<float> Exit(size_t slot) override {
    return {b_.held[slot].layers.back().out, stream_size()};
  }
  std::span<float> Gradient() override { return {b_.dx, stream_size() + d_.width}; }
  std::span<float> HeadGradient(size_t head) override {
    return {b_.head_gradients[head], head_count()};
  }
  size_t head_count() const override { return d_.vocabulary * d_.width; }
  Status Logits(std::span<const int32_t> inputs, std::span<const size_t> rows,
                std::span<float> logits) override;

 private:
  using Layer = CudaLayerBuffers<A>;

  // Host memory for one batch, and when the GPU has read it.
  struct HostBatch {
    PinnedMemory memory;
    collectives::CudaEvent read;
  };

  // Enqueues until the first failure.
  class Work {
   public:
    explicit Work(CudaNetwork& network) : network_(network) {}

    template <typename Kernel>
    Work& operator()(const Kernel& kernel) {
      if (status_.ok()) status_ = network_.kernels_.Launch(kernel);
      return *this;
    }
    Work& Multiply(size_t product, const ProductArguments& arguments) {
      if (status_.ok())
        status_ = network_.products_->Run(product, arguments, network_.kernels_.stream());
      return *this;
    }
    Work& Share(std::span<float> sum) {
      if (status_.ok() && network_.share_) status_ = network_.share_(sum);
      return *this;
    }
    const Status& status() const { return status_; }

   private:
    CudaNetwork& network_;
    Status status_;
  };

  CudaNetwork(std::shared_ptr<const collectives::CudaDevice> device, const CudaGptOptions& options,
              Kernels kernels, collectives::DeviceMemory memory);
  Status MakeProducts(std::shared_ptr<const BlasLibrary> library);
  Status MakeHostBatches(int count);
  // y[s, N, k] = x[N, C] weight[s, C, k] + bias
  struct Columns {
    const A* x;
    size_t k;
    size_t weight;
    size_t bias;
    A* y;
  };
  // Of a layer's map, what shards divide.
  enum class Divided : uint8_t { kNothing, kInputs, kOutputs };
  Status AddLinear(size_t in, size_t out, Divided divided, LinearProducts* products);

  // Where a parameter's operand lies.
  const A* Operand(size_t offset) const {
    return b_.operands + offset + (offset < layout_.split ? 0 : layout_.gap);
  }
  // Elements of the residual stream.
  size_t stream_size() const { return d_.rows * d_.width; }
  unsigned rows() const { return static_cast<unsigned>(d_.rows); }
  unsigned width() const { return static_cast<unsigned>(d_.width); }
  // The parts of the batch.
  const int32_t* inputs() const { return held().batch; }
  const int32_t* targets() const { return held().batch + d_.rows; }
  const int32_t* sorted_rows() const { return held().batch + 2 * d_.rows; }
  const int32_t* starts() const { return held().batch + 3 * d_.rows; }
  // The residual stream before block l, and after the last one.
  float* Stream(size_t l) const { return l == 0 ? held().embedded : held().layers[l - 1].out; }
  const CudaHeldBuffers<A>& held() const { return b_.held[slot_]; }

  // Elements of [s, N, 4 D].
  size_t wide_size() const { return d_.shards * d_.rows * 4 * d_.shard_width; }
  // The two maps of layer l whose outputs shards divide.
  Columns QkvOf(size_t l) const {
    const Layer& layer = held().layers[l];
    return {layer.normal1, 3 * d_.shard_width, offsets_[l].qkv_weight, offsets_[l].qkv_bias,
            layer.qkv};
  }
  Columns FcOf(size_t l) const {
    const Layer& layer = held().layers[l];
    return {layer.normal2, 4 * d_.shard_width, offsets_[l].fc_weight, offsets_[l].fc_bias,
            layer.fc};
  }

  void FillBatch(std::span<const int32_t> tokens, std::span<const int32_t> targets,
                 int32_t* batch) const;
  // b_.sum = what `product` enqueues of each shard, as a balanced tree over all shards.
  using ShardProduct = std::function<void(size_t shard, float* out)>;
  void SumShards(Work& work, const ShardProduct& product);
  void SumShards(Work& work, size_t first, size_t count, size_t level, float* out,
                 const ShardProduct& product);

  Status Run();
  void BlockForward(size_t l, Work& work);
  void ColumnProduct(Work& work, const LinearProducts& products, const Columns& columns);
  // b_.branch = x[s, N, k] weight[s, k, C] + bias
  void RowProduct(Work& work, const LinearProducts& products, const A* x, size_t k, size_t weight,
                  size_t bias);
  // `branch`, which lies in b_.branch, is added to the residual stream where there is one.
  void NormForward(Work& work, const float* x, const A* branch, float* sum, A* normal, float* mean,
                   float* rstd, size_t weight);

  void HeadBackward(float* gradients, float* dwte, Work& work);
  // What the stage behind handed over, as HeadBackward leaves it.
  void TakeGradient(float* gradients, Work& work);
  void MlpBackward(size_t l, float* gradients, Work& work);
  void AttentionBackward(size_t l, float* gradients, Work& work);
  // From dnormal to dx, of a LayerNorm whose input was x; `bias`: of the product that was added to
  // the residual stream just before, or null.
  void NormBackward(Work& work, const float* x, const float* mean, const float* rstd, size_t weight,
                    bool residual, float* gradients, float* bias);
  // From dwide[s, N, k], of a ColumnProduct's y, to dnormal and the gradients of weight and bias.
  void ColumnBackward(Work& work, const LinearProducts& products, const Columns& columns,
                      float* gradients);
  // From dx_operand to dx[s, N, k], of a RowProduct's x, and the gradient of the weight.
  void RowBackward(Work& work, const LinearProducts& products, const A* x, size_t k, size_t weight,
                   A* dx, float* gradients);
  void BiasBackward(Work& work, const A* dy, size_t width, float* bias);
  void EmbedBackward(float* gradients, Work& work);

  std::shared_ptr<const collectives::CudaDevice> device_;
  Stage stage_;
  Dimensions d_;
  std::vector<Parameter> list_;  // what the stage owns
  size_t count_;                 // of parameters that it holds
  size_t head_;                  // where the head's wte lies among them
  std::vector<LayerOffsets> offsets_;
  const float* parameters_;
  Kernels kernels_;
  collectives::DeviceMemory memory_;
  DeviceArena arena_;
  CudaBuffers<A> b_;
  gpu::OperandLayout layout_;
  std::unique_ptr<Products> products_;
  std::function<Status(std::span<float>)> share_;
  LinearProducts qkv_, proj_, fc_, out_, head_products_;
  std::vector<HostBatch> host_batches_;
  size_t next_host_batch_ = 0;
  size_t slot_ = 0;  // of the call
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_CUDA_NETWORK_H_
