#include "worker/trainer/cuda/cuda_gpt.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "worker/trainer/cuda/blas.h"
#include "worker/trainer/cuda/cuda_buffers.h"
#include "worker/trainer/cuda/pinned_memory.h"
#include "worker/trainer/model/bf16.h"
#include "worker/trainer/model/network.h"

namespace lockstep::trainer {
namespace {

using collectives::CudaDevice;
using collectives::CudaEvent;
using collectives::DeviceMemory;
using core::Precision;

template <typename A>
constexpr Precision kPrecision = std::is_same_v<A, Bf16> ? Precision::kBf16 : Precision::kFp32;

float AsFloat(float value) { return value; }
float AsFloat(Bf16 value) { return ToFloat(value); }

// The three products of a linear map [in, out] of the model.
struct LinearProducts {
  size_t forward = 0;
  size_t input_gradient = 0;
  size_t weight_gradient = 0;
};

template <typename A>
class CudaNetwork final : public CudaGpt {
 public:
  static Result<std::unique_ptr<CudaGpt>> Create(const std::shared_ptr<const CudaDevice>& device,
                                                 std::shared_ptr<const BlasLibrary> library,
                                                 Kernels kernels, const CudaGptOptions& options);
  static size_t PredictBytes(const Shape& shape, int batch);

  Kernels& kernels() override { return kernels_; }
  size_t bytes() const override { return memory_.size(); }
  CudaOperands operands() const override { return {kPrecision<A>, b_.operands, layout_}; }

  Status UpdateOperands() override;
  Status SetBatch(std::span<const int32_t> inputs, std::span<const int32_t> targets) override;
  Status Forward(float* loss) override;
  Status Backward(float* gradients, const std::function<void(size_t from)>& complete) override;
  Status Logits(std::span<const int32_t> inputs, std::span<const size_t> rows,
                std::span<float> logits) override;

 private:
  using Layer = CudaLayerBuffers<A>;

  // Host memory for one batch, and when the GPU has read it.
  struct Slot {
    PinnedMemory memory;
    CudaEvent read;
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
    const Status& status() const { return status_; }

   private:
    CudaNetwork& network_;
    Status status_;
  };

  CudaNetwork(std::shared_ptr<const CudaDevice> device, const CudaGptOptions& options,
              Kernels kernels, DeviceMemory memory)
      : device_(std::move(device)),
        d_(options.shape, options.batch),
        list_(Parameters(options.shape)),
        parameters_(options.parameters),
        kernels_(std::move(kernels)),
        memory_(std::move(memory)),
        arena_(memory_.data()),
        b_(d_, ParameterCount(options.shape), arena_),
        layout_{d_.vocabulary * d_.width, (PaddedVocabulary(d_) - d_.vocabulary) * d_.width} {
    for (size_t l = 0; l < d_.layers; ++l) offsets_.emplace_back(list_, l);
  }
  Status MakeProducts(std::shared_ptr<const BlasLibrary> library);
  Status MakeSlots(int count);
  Status AddLinear(size_t in, size_t out, LinearProducts* products);

  // Where a parameter's operand lies. Not for wte, which begins the array.
  const A* Operand(size_t offset) const { return b_.operands + layout_.gap + offset; }
  unsigned rows() const { return static_cast<unsigned>(d_.rows); }
  unsigned width() const { return static_cast<unsigned>(d_.width); }
  // The parts of the batch.
  const int32_t* inputs() const { return b_.batch; }
  const int32_t* targets() const { return b_.batch + d_.rows; }
  const int32_t* sorted_rows() const { return b_.batch + 2 * d_.rows; }
  const int32_t* starts() const { return b_.batch + 3 * d_.rows; }
  // The residual stream before block l, and after the last one.
  float* Stream(size_t l) const { return l == 0 ? b_.embedded : b_.layers[l - 1].out; }

  void FillSlot(std::span<const int32_t> tokens, std::span<const int32_t> targets,
                int32_t* slot) const;
  Status Run();
  void BlockForward(size_t l, Work& work);
  // `branch`, which lies in b_.branch, is added to the residual stream where there is one.
  void NormForward(Work& work, const float* x, const A* branch, float* sum, A* normal, float* mean,
                   float* rstd, size_t weight);

  void HeadBackward(float* gradients, Work& work);
  void MlpBackward(size_t l, float* gradients, Work& work);
  void AttentionBackward(size_t l, float* gradients, Work& work);
  // From dnormal to dx, of a LayerNorm whose input was x; `bias`: of the product that was added to
  // the residual stream just before, or null.
  void NormBackward(Work& work, const float* x, const float* mean, const float* rstd, size_t weight,
                    bool residual, float* gradients, float* bias);
  void BiasBackward(Work& work, size_t width, float* bias);
  void EmbedBackward(float* gradients, Work& work);

  std::shared_ptr<const CudaDevice> device_;
  Dimensions d_;
  std::vector<Parameter> list_;
  std::vector<LayerOffsets> offsets_;
  const float* parameters_;
  Kernels kernels_;
  DeviceMemory memory_;
  DeviceArena arena_;
  CudaBuffers<A> b_;
  gpu::OperandLayout layout_;
  std::unique_ptr<Products> products_;
  LinearProducts qkv_, proj_, fc_, out_, head_;
  std::vector<Slot> slots_;
  size_t next_slot_ = 0;
};

template <typename A>
size_t CudaNetwork<A>::PredictBytes(const Shape& shape, int batch) {
  DeviceArena counter;
  const CudaBuffers<A> buffers(Dimensions(shape, batch), ParameterCount(shape), counter);
  return counter.used();
}

template <typename A>
Result<std::unique_ptr<CudaGpt>> CudaNetwork<A>::Create(
    const std::shared_ptr<const CudaDevice>& device, std::shared_ptr<const BlasLibrary> library,
    Kernels kernels, const CudaGptOptions& options) {
  Result<DeviceMemory> memory =
      DeviceMemory::Allocate(device, PredictBytes(options.shape, options.batch));
  if (!memory.ok()) return memory.error();
  std::unique_ptr<CudaNetwork> network(
      new CudaNetwork(device, options, std::move(kernels), std::move(*memory)));
  if (Status made = network->MakeProducts(std::move(library)); !made.ok()) return made.error();
  if (Status made = network->MakeSlots(options.batches_ahead); !made.ok()) return made.error();
  return std::unique_ptr<CudaGpt>(std::move(network));
}

template <typename A>
Status CudaNetwork<A>::MakeProducts(std::shared_ptr<const BlasLibrary> library) {
  Result<std::unique_ptr<Products>> products =
      Products::Create(device_, std::move(library), {b_.workspace, Workspace::kBytes});
  if (!products.ok()) return products.error();
  products_ = std::move(*products);
  const size_t c = d_.width;
  struct Linear {
    size_t in;
    size_t out;
    LinearProducts* products;
  };
  for (const Linear& linear : {Linear{c, 3 * c, &qkv_}, Linear{c, c, &proj_},
                               Linear{c, 4 * c, &fc_}, Linear{4 * c, c, &out_}}) {
    if (Status added = AddLinear(linear.in, linear.out, linear.products); !added.ok()) return added;
  }
  return AddLinear(c, 0, &head_);
}

// `out` 0 is the head: by the rows of wte, padded but for its gradient.
template <typename A>
Status CudaNetwork<A>::AddLinear(size_t in, size_t out, LinearProducts* products) {
  const bool head = out == 0;
  const size_t padded = PaddedVocabulary(d_);
  const ProductShape shape{
      ProductKind::kForward, kPrecision<A>, d_.rows, in, head ? padded : out, 0, head, !head};
  ProductShape dx = shape;
  dx.kind = ProductKind::kInputGradient;
  dx.bias = false;
  ProductShape dw = dx;
  dw.kind = ProductKind::kWeightGradient;
  if (head) {
    dw.out = d_.vocabulary;
    dw.y_stride = padded;
  }
  struct Wanted {
    const ProductShape* shape;
    size_t* product;
  };
  for (const Wanted& wanted :
       {Wanted{&shape, &products->forward}, Wanted{&dx, &products->input_gradient},
        Wanted{&dw, &products->weight_gradient}}) {
    const Result<size_t> added = products_->Add(*wanted.shape);
    if (!added.ok()) return added.error();
    *wanted.product = *added;
  }
  return {};
}

template <typename A>
Status CudaNetwork<A>::MakeSlots(int count) {
  for (int i = 0; i < std::max(count, 1); ++i) {
    Result<PinnedMemory> memory =
        PinnedMemory::Allocate(device_, CudaBuffers<A>::BatchSize(d_) * sizeof(int32_t));
    if (!memory.ok()) return memory.error();
    Result<CudaEvent> read = CudaEvent::Create(device_);
    if (!read.ok()) return read.error();
    slots_.push_back({std::move(*memory), std::move(*read)});
  }
  return {};
}

template <typename A>
Status CudaNetwork<A>::UpdateOperands() {
  return kernels_.Launch(gpu::ConvertParameters<A>{.from = parameters_,
                                                   .to = b_.operands,
                                                   .count = list_.back().offset + list_.back().size,
                                                   .layout = layout_});
}

// The rows are counted, then put where their token's begin, in their order.
template <typename A>
void CudaNetwork<A>::FillSlot(std::span<const int32_t> tokens, std::span<const int32_t> targets,
                              int32_t* slot) const {
  std::copy(tokens.begin(), tokens.end(), slot);
  std::copy(targets.begin(), targets.end(), slot + d_.rows);
  int32_t* sorted = slot + 2 * d_.rows;
  int32_t* starts = slot + 3 * d_.rows;
  std::fill_n(starts, d_.vocabulary + 1, 0);
  for (const int32_t token : tokens) ++starts[token + 1];
  std::partial_sum(starts, starts + d_.vocabulary + 1, starts);
  for (size_t row = 0; row < tokens.size(); ++row)
    sorted[starts[tokens[row]]++] = static_cast<int32_t>(row);
  // Each start has become the next token's.
  std::copy_backward(starts, starts + d_.vocabulary, starts + d_.vocabulary + 1);
  starts[0] = 0;
}

template <typename A>
Status CudaNetwork<A>::SetBatch(std::span<const int32_t> inputs, std::span<const int32_t> targets) {
  assert(inputs.size() == d_.rows && targets.size() == d_.rows);
  for (const std::span<const int32_t> tokens : {inputs, targets}) {
    for (const int32_t token : tokens) {
      if (token < 0 || static_cast<size_t>(token) >= d_.vocabulary)
        return Error::Invalid("the data holds token " + std::to_string(token) +
                              ", and the model's vocabulary ends at " +
                              std::to_string(d_.vocabulary - 1));
    }
  }
  const Slot& slot = slots_[next_slot_];
  if (Status read = slot.read.Wait(); !read.ok()) return read;
  auto* host = slot.memory.template As<int32_t>();
  FillSlot(inputs, targets, host);
  const auto code = device_->api().copy_to_device(reinterpret_cast<uintptr_t>(b_.batch), host,
                                                  CudaBuffers<A>::BatchSize(d_) * sizeof(int32_t),
                                                  kernels_.stream().get());
  if (Status copied = device_->driver().Check("cuMemcpyHtoDAsync of a batch", code); !copied.ok())
    return copied;
  next_slot_ = (next_slot_ + 1) % slots_.size();
  return slot.read.Record(kernels_.stream());
}

// Forward.

template <typename A>
void CudaNetwork<A>::NormForward(Work& work, const float* x, const A* branch, float* sum, A* normal,
                                 float* mean, float* rstd, size_t weight) {
  work(gpu::ResidualNorm<A>{.x = x,
                            .y = branch,
                            .sum = sum,
                            .normal = normal,
                            .mean = mean,
                            .rstd = rstd,
                            .weight = parameters_ + weight,
                            .bias = parameters_ + weight + d_.width,
                            .rows = rows(),
                            .width = width()});
}

template <typename A>
Status CudaNetwork<A>::Run() {
  Work work(*this);
  work(gpu::Embed{.tokens = inputs(),
                  .wte = parameters_,
                  .wpe = parameters_ + list_[1].offset,
                  .x = b_.embedded,
                  .rows = rows(),
                  .context = static_cast<unsigned>(d_.tokens),
                  .width = width()});
  for (size_t l = 0; l < d_.layers; ++l) BlockForward(l, work);
  const size_t last = d_.layers;
  NormForward(work, last == 0 ? b_.embedded : b_.layers[last - 1].middle,
              last == 0 ? nullptr : b_.branch, Stream(last), b_.normal, b_.mean, b_.rstd,
              list_[list_.size() - 2].offset);
  work.Multiply(head_.forward, {.first = b_.normal, .second = b_.operands, .result = b_.logits});
  return work.status();
}

// Leaves its last part in b_.branch: whoever normalises next adds it.
template <typename A>
void CudaNetwork<A>::BlockForward(size_t l, Work& work) {
  const Layer& layer = b_.layers[l];
  const LayerOffsets& at = offsets_[l];
  NormForward(work, l == 0 ? b_.embedded : b_.layers[l - 1].middle, l == 0 ? nullptr : b_.branch,
              Stream(l), layer.normal1, layer.mean1, layer.rstd1, at.norm1_weight);
  work.Multiply(qkv_.forward,
                {layer.normal1, Operand(at.qkv_weight), layer.qkv, Operand(at.qkv_bias)});
  work(gpu::Attention<A>{.qkv = layer.qkv,
                         .mixed = layer.mixed,
                         .log_sum = layer.log_sum,
                         .batch = static_cast<unsigned>(d_.batch),
                         .context = static_cast<unsigned>(d_.tokens),
                         .heads = static_cast<unsigned>(d_.heads)});
  work.Multiply(proj_.forward,
                {layer.mixed, Operand(at.proj_weight), b_.branch, Operand(at.proj_bias)});
  NormForward(work, Stream(l), b_.branch, layer.middle, layer.normal2, layer.mean2, layer.rstd2,
              at.norm2_weight);
  work.Multiply(fc_.forward, {layer.normal2, Operand(at.fc_weight), layer.fc, Operand(at.fc_bias)});
  work(gpu::Gelu<A>{.x = layer.fc, .y = layer.gelu, .count = d_.rows * 4 * d_.width});
  work.Multiply(out_.forward,
                {layer.gelu, Operand(at.out_weight), b_.branch, Operand(at.out_bias)});
}

template <typename A>
Status CudaNetwork<A>::Forward(float* loss) {
  if (Status run = Run(); !run.ok()) return run;
  Work work(*this);
  work(gpu::Classifier<A>{.logits = b_.logits,
                          .targets = targets(),
                          .losses = b_.losses,
                          .scale = 1.0F / static_cast<float>(d_.rows),
                          .rows = rows(),
                          .vocabulary = static_cast<unsigned>(d_.vocabulary),
                          .stride = static_cast<unsigned>(PaddedVocabulary(d_))});
  work(gpu::MeanLoss{.losses = b_.losses, .mean = loss, .rows = rows()});
  return work.status();
}

template <typename A>
Status CudaNetwork<A>::Logits(std::span<const int32_t> inputs, std::span<const size_t> rows,
                              std::span<float> logits) {
  assert(logits.size() == rows.size() * d_.vocabulary);
  if (Status set = SetBatch(inputs, inputs); !set.ok()) return set;
  if (Status run = Run(); !run.ok()) return run;
  std::vector<A> copied(logits.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    assert(rows[i] < d_.rows);
    const auto code = device_->api().copy_to_host(
        &copied[i * d_.vocabulary],
        reinterpret_cast<uintptr_t>(b_.logits + rows[i] * PaddedVocabulary(d_)),
        d_.vocabulary * sizeof(A), kernels_.stream().get());
    if (Status begun = device_->driver().Check("cuMemcpyDtoHAsync of logits", code); !begun.ok())
      return begun;
  }
  const Status waited = kernels_.Synchronize();
  std::transform(copied.begin(), copied.end(), logits.begin(), [](A x) { return AsFloat(x); });
  return waited;
}

// Backward.

template <typename A>
Status CudaNetwork<A>::Backward(float* gradients,
                                const std::function<void(size_t from)>& complete) {
  Work work(*this);
  // What is not enqueued is not announced either.
  const auto announce = [&](size_t from) {
    if (work.status().ok()) complete(from);
  };
  HeadBackward(gradients, work);
  announce(list_[list_.size() - 2].offset);
  for (size_t l = d_.layers; l-- > 0;) {
    MlpBackward(l, gradients, work);
    announce(offsets_[l].proj_weight);
    AttentionBackward(l, gradients, work);
    announce(offsets_[l].norm1_weight);
  }
  EmbedBackward(gradients, work);
  announce(0);
  return work.status();
}

template <typename A>
void CudaNetwork<A>::NormBackward(Work& work, const float* x, const float* mean, const float* rstd,
                                  size_t weight, bool residual, float* gradients, float* bias) {
  const gpu::NormBackward<A> backward{.dnormal = b_.dnormal,
                                      .x = x,
                                      .mean = mean,
                                      .rstd = rstd,
                                      .weight = parameters_ + weight,
                                      .residual = residual ? b_.dx : nullptr,
                                      .dx = b_.dx,
                                      .dx_operand = b_.dx_operand,
                                      .partial = b_.partial,
                                      .rows = rows(),
                                      .width = width()};
  work(backward);
  work(gpu::ColumnSums{.partial = b_.partial,
                       .sums = {gradients + weight, gradients + weight + d_.width, bias},
                       .parts = backward.parts(),
                       .groups = 3,
                       .width = width()});
}

template <typename A>
void CudaNetwork<A>::BiasBackward(Work& work, size_t width, float* bias) {
  const gpu::BiasBackward<A> backward{
      .dy = b_.dwide, .partial = b_.partial, .rows = rows(), .width = static_cast<unsigned>(width)};
  work(backward);
  work(gpu::ColumnSums{.partial = b_.partial,
                       .sums = {bias, nullptr, nullptr},
                       .parts = backward.parts(),
                       .groups = 1,
                       .width = backward.width});
}

// dx of the last block's output; ln_f, and the bias of what the last block added; and the head's
// part of wte.
template <typename A>
void CudaNetwork<A>::HeadBackward(float* gradients, Work& work) {
  work.Multiply(head_.input_gradient, {b_.logits, b_.operands, b_.dnormal});
  work.Multiply(head_.weight_gradient, {b_.normal, b_.logits, gradients});
  NormBackward(work, Stream(d_.layers), b_.mean, b_.rstd, list_[list_.size() - 2].offset, false,
               gradients, d_.layers == 0 ? nullptr : gradients + offsets_.back().out_bias);
}

// From dx of the block's output to dx of `middle`, and to dnormal, of `mixed`.
template <typename A>
void CudaNetwork<A>::MlpBackward(size_t l, float* gradients, Work& work) {
  const Layer& layer = b_.layers[l];
  const LayerOffsets& at = offsets_[l];
  work.Multiply(out_.weight_gradient, {layer.gelu, b_.dx_operand, gradients + at.out_weight});
  work.Multiply(out_.input_gradient, {b_.dx_operand, Operand(at.out_weight), b_.dwide});
  work(gpu::GeluBackward<A>{
      .x = layer.fc, .dy = b_.dwide, .dx = b_.dwide, .count = d_.rows * 4 * d_.width});
  BiasBackward(work, 4 * d_.width, gradients + at.fc_bias);
  work.Multiply(fc_.weight_gradient, {layer.normal2, b_.dwide, gradients + at.fc_weight});
  work.Multiply(fc_.input_gradient, {b_.dwide, Operand(at.fc_weight), b_.dnormal});
  NormBackward(work, layer.middle, layer.mean2, layer.rstd2, at.norm2_weight, true, gradients,
               gradients + at.proj_bias);
  work.Multiply(proj_.weight_gradient, {layer.mixed, b_.dx_operand, gradients + at.proj_weight});
  work.Multiply(proj_.input_gradient, {b_.dx_operand, Operand(at.proj_weight), b_.dnormal});
}

// From dnormal, of `mixed`, to dx of the block's input.
template <typename A>
void CudaNetwork<A>::AttentionBackward(size_t l, float* gradients, Work& work) {
  const Layer& layer = b_.layers[l];
  const LayerOffsets& at = offsets_[l];
  const gpu::AttentionDelta<A> delta{.mixed = layer.mixed,
                                     .dmixed = b_.dnormal,
                                     .delta = b_.delta,
                                     .batch = static_cast<unsigned>(d_.batch),
                                     .context = static_cast<unsigned>(d_.tokens),
                                     .heads = static_cast<unsigned>(d_.heads)};
  const gpu::AttentionGradients<A> attention{.qkv = layer.qkv,
                                             .dmixed = b_.dnormal,
                                             .log_sum = layer.log_sum,
                                             .delta = b_.delta,
                                             .dqkv = b_.dwide,
                                             .batch = delta.batch,
                                             .context = delta.context,
                                             .heads = delta.heads};
  work(delta)(gpu::AttentionQueries<A>{attention})(gpu::AttentionKeys<A>{attention});
  BiasBackward(work, 3 * d_.width, gradients + at.qkv_bias);
  work.Multiply(qkv_.weight_gradient, {layer.normal1, b_.dwide, gradients + at.qkv_weight});
  work.Multiply(qkv_.input_gradient, {b_.dwide, Operand(at.qkv_weight), b_.dnormal});
  NormBackward(work, Stream(l), layer.mean1, layer.rstd1, at.norm1_weight, true, gradients,
               l == 0 ? nullptr : gradients + offsets_[l - 1].out_bias);
}

// Adds to wte's gradient, which is the head's so far, what the tokens say; and makes wpe's.
template <typename A>
void CudaNetwork<A>::EmbedBackward(float* gradients, Work& work) {
  work(gpu::TokenBackward{.dx = b_.dx,
                          .rows = sorted_rows(),
                          .starts = starts(),
                          .dwte = b_.dtoken,
                          .vocabulary = static_cast<unsigned>(d_.vocabulary),
                          .width = width()});
  work(gpu::PositionBackward{.dx = b_.dx,
                             .dwpe = gradients + list_[1].offset,
                             .batch = static_cast<unsigned>(d_.batch),
                             .context = static_cast<unsigned>(d_.tokens),
                             .width = width()});
  work(gpu::TreeAdd{.sum = gradients, .part = b_.dtoken, .count = d_.vocabulary * d_.width});
}

}  // namespace

Status CudaGpt::Check(const Shape& shape, int batch) {
  const auto refuse = [&shape](const std::string& why) {
    return Error::Invalid("a model of " + ToString(shape) + " does not run on a GPU: " + why);
  };
  if (shape.heads < 1 || shape.width != shape.heads * static_cast<int>(gpu::kHeadWidth))
    return refuse("heads must be 64 wide: choose as many as the width holds 64s");
  if (static_cast<unsigned>(shape.width) > gpu::kMaxWidth)
    return refuse("choose a width up to " + std::to_string(gpu::kMaxWidth));
  if (batch < 1 || shape.context < 1 || shape.vocabulary < 1)
    return refuse("the batch, the context and the vocabulary must be at least 1");
  // What the kernels count in 32 bits, and the blocks of a launch's second dimension.
  if (int64_t{batch} * shape.heads > 65535 ||
      int64_t{batch} * shape.context > int64_t{65535} * gpu::kBiasRows)
    return refuse("choose a smaller batch");
  return {};
}

size_t CudaGpt::PredictBytes(const Shape& shape, int batch, Precision precision) {
  return precision == Precision::kBf16 ? CudaNetwork<Bf16>::PredictBytes(shape, batch)
                                       : CudaNetwork<float>::PredictBytes(shape, batch);
}

Result<std::unique_ptr<CudaGpt>> CudaGpt::Create(const std::shared_ptr<const CudaDevice>& device,
                                                 std::shared_ptr<const BlasLibrary> library,
                                                 Kernels kernels, const CudaGptOptions& options) {
  if (Status checked = Check(options.shape, options.batch); !checked.ok()) return checked.error();
  assert(options.parameters != nullptr);
  return options.precision == Precision::kBf16
             ? CudaNetwork<Bf16>::Create(device, std::move(library), std::move(kernels), options)
             : CudaNetwork<float>::Create(device, std::move(library), std::move(kernels), options);
}

}  // namespace lockstep::trainer
