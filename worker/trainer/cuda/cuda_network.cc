#include "worker/trainer/cuda/cuda_network.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <string>

namespace lockstep::trainer {
namespace {

using collectives::CudaDevice;
using collectives::CudaEvent;
using collectives::DeviceMemory;

float AsFloat(float value) { return value; }
float AsFloat(Bf16 value) { return ToFloat(value); }

}  // namespace

template <typename A>
CudaNetwork<A>::CudaNetwork(std::shared_ptr<const CudaDevice> device, const CudaGptOptions& options,
                            Kernels kernels, DeviceMemory memory)
    : device_(std::move(device)),
      stage_(options.stage),
      d_(options.shape, options.batch, stage_),
      list_(Parameters(options.shape, stage_)),
      count_(HeldCount(options.shape, stage_)),
      head_(stage_.has_head_copy() ? OwnedCount(options.shape, stage_) : 0),
      parameters_(options.parameters),
      kernels_(std::move(kernels)),
      memory_(std::move(memory)),
      arena_(memory_.data()),
      b_(d_, count_, stage_, options.held, options.heads, arena_),
      // The padding lies behind wte, which is the first or the last.
      layout_{stage_.first() ? head_count() : count_, CudaBuffers<A>::PaddingOf(d_, stage_)} {
  const size_t before = stage_.first() ? 2 : 0;
  for (size_t l = 0; l < d_.layers; ++l) offsets_.emplace_back(list_, l, before);
}

template <typename A>
size_t CudaNetwork<A>::PredictBytes(const CudaGptOptions& options) {
  DeviceArena counter;
  const Stage& stage = options.stage;
  const CudaBuffers<A> buffers(Dimensions(options.shape, options.batch, stage),
                               HeldCount(options.shape, stage), stage, options.held, options.heads,
                               counter);
  return counter.used();
}

template <typename A>
Result<std::unique_ptr<CudaGpt>> CudaNetwork<A>::Create(
    const std::shared_ptr<const CudaDevice>& device, std::shared_ptr<const BlasLibrary> library,
    Kernels kernels, const CudaGptOptions& options) {
  Result<DeviceMemory> memory = DeviceMemory::Allocate(device, PredictBytes(options));
  if (!memory.ok()) return memory.error();
  std::unique_ptr<CudaNetwork> network(
      new CudaNetwork(device, options, std::move(kernels), std::move(*memory)));
  if (Status made = network->MakeProducts(std::move(library)); !made.ok()) return made.error();
  if (Status made = network->MakeHostBatches(options.batches_ahead); !made.ok())
    return made.error();
  return std::unique_ptr<CudaGpt>(std::move(network));
}

template <typename A>
Status CudaNetwork<A>::MakeProducts(std::shared_ptr<const BlasLibrary> library) {
  Result<std::unique_ptr<Products>> products =
      Products::Create(device_, std::move(library), {b_.workspace, Workspace::kBytes});
  if (!products.ok()) return products.error();
  products_ = std::move(*products);
  const size_t c = d_.width;
  const size_t d = d_.shard_width;
  struct Linear {
    size_t in;
    size_t out;
    Divided divided;
    LinearProducts* products;
  };
  for (const Linear& linear :
       {Linear{c, 3 * d, Divided::kOutputs, &qkv_}, Linear{d, c, Divided::kInputs, &proj_},
        Linear{c, 4 * d, Divided::kOutputs, &fc_}, Linear{4 * d, c, Divided::kInputs, &out_}}) {
    const Divided divided = d_.sharded ? linear.divided : Divided::kNothing;
    Status added = AddLinear(linear.in, linear.out, divided, linear.products);
    if (!added.ok()) return added;
  }
  return stage_.last() ? AddLinear(c, 0, Divided::kNothing, &head_products_) : Status();
}

// `out` 0 is the head: by the rows of wte, padded but for its gradient.
template <typename A>
Status CudaNetwork<A>::AddLinear(size_t in, size_t out, Divided divided, LinearProducts* products) {
  const bool head = out == 0;
  const size_t padded = PaddedVocabulary(d_);
  ProductShape y{.kind = ProductKind::kForward,
                 .precision = kPrecision<A>,
                 .rows = d_.rows,
                 .in = in,
                 .out = head ? padded : out,
                 .by_output = head};
  ProductShape dx = y;
  dx.kind = ProductKind::kInputGradient;
  dx.part = divided == Divided::kOutputs;
  ProductShape dw = y;
  dw.kind = ProductKind::kWeightGradient;
  y.part = divided == Divided::kInputs;
  y.bias = !head && !y.part;
  if (head) {
    dw.out = d_.vocabulary;
    dw.y_stride = padded;
  }
  struct Wanted {
    const ProductShape* shape;
    size_t* product;
  };
  for (const Wanted& wanted :
       {Wanted{&y, &products->forward}, Wanted{&dx, &products->input_gradient},
        Wanted{&dw, &products->weight_gradient}}) {
    const Result<size_t> added = products_->Add(*wanted.shape);
    if (!added.ok()) return added.error();
    *wanted.product = *added;
  }
  return {};
}

template <typename A>
Status CudaNetwork<A>::MakeHostBatches(int count) {
  for (int i = 0; i < std::max(count, 1); ++i) {
    Result<PinnedMemory> memory =
        PinnedMemory::Allocate(device_, CudaHeldBuffers<A>::BatchSize(d_) * sizeof(int32_t));
    if (!memory.ok()) return memory.error();
    Result<CudaEvent> read = CudaEvent::Create(device_);
    if (!read.ok()) return read.error();
    host_batches_.push_back({std::move(*memory), std::move(*read)});
  }
  return {};
}

template <typename A>
Status CudaNetwork<A>::UpdateOperands() {
  return kernels_.Launch(gpu::ConvertParameters<A>{
      .from = parameters_, .to = b_.operands, .count = count_, .layout = layout_});
}

template <typename A>
Status CudaNetwork<A>::UpdateHead() {
  const size_t count = head_count();
  return kernels_.Launch(gpu::ConvertParameters<A>{.from = parameters_ + head_,
                                                   .to = b_.operands + head_,
                                                   .count = count,
                                                   .layout = {count, 0}});
}

// The rows are counted, then put where their token's begin, in their order.
template <typename A>
void CudaNetwork<A>::FillBatch(std::span<const int32_t> tokens, std::span<const int32_t> targets,
                               int32_t* batch) const {
  std::copy(tokens.begin(), tokens.end(), batch);
  std::copy(targets.begin(), targets.end(), batch + d_.rows);
  int32_t* sorted = batch + 2 * d_.rows;
  int32_t* starts = batch + 3 * d_.rows;
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
Status CudaNetwork<A>::SetBatch(std::span<const int32_t> inputs, std::span<const int32_t> targets,
                                size_t slot) {
  assert(inputs.size() == d_.rows && targets.size() == d_.rows);
  for (const std::span<const int32_t> tokens : {inputs, targets}) {
    for (const int32_t token : tokens) {
      if (token < 0 || static_cast<size_t>(token) >= d_.vocabulary)
        return Error::Invalid("the data holds token " + std::to_string(token) +
                              ", and the model's vocabulary ends at " +
                              std::to_string(d_.vocabulary - 1));
    }
  }
  const HostBatch& batch = host_batches_[next_host_batch_];
  if (Status read = batch.read.Wait(); !read.ok()) return read;
  auto* host = batch.memory.template As<int32_t>();
  FillBatch(inputs, targets, host);
  const auto code = device_->api().copy_to_device(
      reinterpret_cast<uintptr_t>(b_.held[slot].batch), host,
      CudaHeldBuffers<A>::BatchSize(d_) * sizeof(int32_t), kernels_.stream().get());
  if (Status copied = device_->driver().Check("cuMemcpyHtoDAsync of a batch", code); !copied.ok())
    return copied;
  next_host_batch_ = (next_host_batch_ + 1) % host_batches_.size();
  return batch.read.Record(kernels_.stream());
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
  if (stage_.first()) {
    work(gpu::Embed{.tokens = inputs(),
                    .wte = parameters_,
                    .wpe = parameters_ + list_[1].offset,
                    .x = held().embedded,
                    .rows = rows(),
                    .context = static_cast<unsigned>(d_.tokens),
                    .width = width()});
  }
  for (size_t l = 0; l < d_.layers; ++l) BlockForward(l, work);
  const size_t last = d_.layers;
  if (!stage_.last()) {
    work(gpu::ResidualAdd<A>{.x = held().layers[last - 1].middle,
                             .y = b_.branch,
                             .sum = Stream(last),
                             .count = stream_size()});
    return work.status();
  }
  NormForward(work, last == 0 ? held().embedded : held().layers[last - 1].middle,
              last == 0 ? nullptr : b_.branch, Stream(last), b_.normal, b_.mean, b_.rstd,
              list_[list_.size() - 2].offset);
  work.Multiply(head_products_.forward,
                {.first = b_.normal, .second = b_.operands + head_, .result = b_.logits});
  return work.status();
}

// Leaves its last part in b_.branch: whoever normalises next adds it.
template <typename A>
void CudaNetwork<A>::BlockForward(size_t l, Work& work) {
  const Layer& layer = held().layers[l];
  const LayerOffsets& at = offsets_[l];
  NormForward(work, l == 0 ? held().embedded : held().layers[l - 1].middle,
              l == 0 ? nullptr : b_.branch, Stream(l), layer.normal1, layer.mean1, layer.rstd1,
              at.norm1_weight);
  ColumnProduct(work, qkv_, QkvOf(l));
  for (size_t shard = 0; shard < d_.shards; ++shard) {
    const size_t first = shard * d_.rows * d_.shard_width;
    work(gpu::Attention<A>{.qkv = layer.qkv + 3 * first,
                           .mixed = layer.mixed + first,
                           .log_sum = layer.log_sum + shard * d_.rows * d_.shard_heads,
                           .batch = static_cast<unsigned>(d_.batch),
                           .context = static_cast<unsigned>(d_.tokens),
                           .heads = static_cast<unsigned>(d_.shard_heads)});
  }
  RowProduct(work, proj_, layer.mixed, d_.shard_width, at.proj_weight, at.proj_bias);
  NormForward(work, Stream(l), b_.branch, layer.middle, layer.normal2, layer.mean2, layer.rstd2,
              at.norm2_weight);
  ColumnProduct(work, fc_, FcOf(l));
  work(gpu::Gelu<A>{.x = layer.fc, .y = layer.gelu, .count = wide_size()});
  RowProduct(work, out_, layer.gelu, 4 * d_.shard_width, at.out_weight, at.out_bias);
}

template <typename A>
void CudaNetwork<A>::SumShards(Work& work, size_t first, size_t count, size_t level, float* out,
                               const ShardProduct& product) {
  if (count == 1) return product(first, out);
  const size_t half = count / 2;
  float* other = b_.levels + level * stream_size();
  SumShards(work, first, half, level, out, product);
  SumShards(work, first + half, half, level + 1, other, product);
  work(gpu::TreeAdd{.sum = out, .part = other, .count = stream_size()});
}

template <typename A>
void CudaNetwork<A>::SumShards(Work& work, const ShardProduct& product) {
  SumShards(work, 0, d_.shards, 0, b_.sum, product);
  work.Share({b_.sum, stream_size()});
}

template <typename A>
void CudaNetwork<A>::ColumnProduct(Work& work, const LinearProducts& products,
                                   const Columns& columns) {
  for (size_t shard = 0; shard < d_.shards; ++shard) {
    work.Multiply(
        products.forward,
        {columns.x, Operand(columns.weight) + shard * d_.width * columns.k,
         columns.y + shard * d_.rows * columns.k, Operand(columns.bias) + shard * columns.k});
  }
}

template <typename A>
void CudaNetwork<A>::RowProduct(Work& work, const LinearProducts& products, const A* x, size_t k,
                                size_t weight, size_t bias) {
  if (!d_.sharded) {
    work.Multiply(products.forward, {x, Operand(weight), b_.branch, Operand(bias)});
    return;
  }
  SumShards(work, [&](size_t shard, float* out) {
    work.Multiply(products.forward,
                  {x + shard * d_.rows * k, Operand(weight) + shard * k * d_.width, out});
  });
  work(gpu::AddBias<A>{
      .x = b_.sum, .bias = parameters_ + bias, .y = b_.branch, .rows = rows(), .width = width()});
}

template <typename A>
Status CudaNetwork<A>::Forward(float* loss, size_t slot) {
  slot_ = slot;
  if (Status run = Run(); !run.ok() || !stage_.last()) return run;
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
  assert(stage_.is_model());
  slot_ = 0;
  if (Status set = SetBatch(inputs, inputs, 0); !set.ok()) return set;
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

template class CudaNetwork<Bf16>;
template class CudaNetwork<float>;

}  // namespace lockstep::trainer
