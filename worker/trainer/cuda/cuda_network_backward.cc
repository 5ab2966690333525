#include "worker/trainer/cuda/cuda_network.h"

namespace lockstep::trainer {

template <typename A>
Status CudaNetwork<A>::Backward(float* gradients, const std::function<void(size_t from)>& complete,
                                size_t slot, size_t head) {
  slot_ = slot;
  Work work(*this);
  // What is not enqueued is not announced either.
  const auto announce = [&](size_t from) {
    if (work.status().ok()) complete(from);
  };
  if (stage_.last()) {
    HeadBackward(gradients, stage_.first() ? gradients : b_.head_gradients[head], work);
    announce(list_[list_.size() - 2].offset);
  } else {
    TakeGradient(gradients, work);
  }
  for (size_t l = d_.layers; l-- > 0;) {
    MlpBackward(l, gradients, work);
    announce(offsets_[l].proj_weight);
    AttentionBackward(l, gradients, work);
    announce(offsets_[l].norm1_weight);
  }
  if (stage_.first()) {
    EmbedBackward(gradients, work);
    announce(0);
  }
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
void CudaNetwork<A>::BiasBackward(Work& work, const A* dy, size_t width, float* bias) {
  const gpu::BiasBackward<A> backward{
      .dy = dy, .partial = b_.partial, .rows = rows(), .width = static_cast<unsigned>(width)};
  work(backward);
  work(gpu::ColumnSums{.partial = b_.partial,
                       .sums = {bias, nullptr, nullptr},
                       .parts = backward.parts(),
                       .groups = 1,
                       .width = backward.width});
}

template <typename A>
void CudaNetwork<A>::ColumnBackward(Work& work, const LinearProducts& products,
                                    const Columns& columns, float* gradients) {
  const size_t k = columns.k;
  for (size_t shard = 0; shard < d_.shards; ++shard) {
    const A* dy = b_.dwide + shard * d_.rows * k;
    BiasBackward(work, dy, k, gradients + columns.bias + shard * k);
    work.Multiply(products.weight_gradient,
                  {columns.x, dy, gradients + columns.weight + shard * d_.width * k});
  }
  if (!d_.sharded) {
    work.Multiply(products.input_gradient, {b_.dwide, Operand(columns.weight), b_.dnormal});
    return;
  }
  SumShards(work, [&](size_t shard, float* out) {
    work.Multiply(products.input_gradient, {b_.dwide + shard * d_.rows * k,
                                            Operand(columns.weight) + shard * d_.width * k, out});
  });
  work(gpu::AddBias<A>{
      .x = b_.sum, .bias = nullptr, .y = b_.dnormal, .rows = rows(), .width = width()});
}

template <typename A>
void CudaNetwork<A>::RowBackward(Work& work, const LinearProducts& products, const A* x, size_t k,
                                 size_t weight, A* dx, float* gradients) {
  for (size_t shard = 0; shard < d_.shards; ++shard) {
    const size_t at = shard * k * d_.width;
    work.Multiply(products.weight_gradient,
                  {x + shard * d_.rows * k, b_.dx_operand, gradients + weight + at});
    work.Multiply(products.input_gradient,
                  {b_.dx_operand, Operand(weight) + at, dx + shard * d_.rows * k});
  }
}

// dx of the last block's output; ln_f, and the bias of what the last block added; and the head's
// part of wte.
template <typename A>
void CudaNetwork<A>::HeadBackward(float* gradients, float* dwte, Work& work) {
  work.Multiply(head_products_.input_gradient, {b_.logits, b_.operands + head_, b_.dnormal});
  work.Multiply(head_products_.weight_gradient, {b_.normal, b_.logits, dwte});
  NormBackward(work, Stream(d_.layers), b_.mean, b_.rstd, list_[list_.size() - 2].offset, false,
               gradients, d_.layers == 0 ? nullptr : gradients + offsets_.back().out_bias);
}

template <typename A>
void CudaNetwork<A>::TakeGradient(float* gradients, Work& work) {
  work(gpu::ConvertParameters<A>{
      .from = b_.dx, .to = b_.dx_operand, .count = stream_size(), .layout = {stream_size(), 0}});
  work(gpu::Copy{.from = b_.dx + stream_size(),
                 .to = gradients + offsets_.back().out_bias,
                 .count = d_.width});
}

// From dx of the block's output to dx of `middle`, and to dnormal, of `mixed`.
template <typename A>
void CudaNetwork<A>::MlpBackward(size_t l, float* gradients, Work& work) {
  const Layer& layer = held().layers[l];
  const LayerOffsets& at = offsets_[l];
  RowBackward(work, out_, layer.gelu, 4 * d_.shard_width, at.out_weight, b_.dwide, gradients);
  work(gpu::GeluBackward<A>{.x = layer.fc, .dy = b_.dwide, .dx = b_.dwide, .count = wide_size()});
  ColumnBackward(work, fc_, FcOf(l), gradients);
  NormBackward(work, layer.middle, layer.mean2, layer.rstd2, at.norm2_weight, true, gradients,
               gradients + at.proj_bias);
  RowBackward(work, proj_, layer.mixed, d_.shard_width, at.proj_weight, b_.dnormal, gradients);
}

// From dnormal, of `mixed`, to dx of the block's input.
template <typename A>
void CudaNetwork<A>::AttentionBackward(size_t l, float* gradients, Work& work) {
  const Layer& layer = held().layers[l];
  const LayerOffsets& at = offsets_[l];
  for (size_t shard = 0; shard < d_.shards; ++shard) {
    const size_t first = shard * d_.rows * d_.shard_width;
    const size_t statistics = shard * d_.rows * d_.shard_heads;
    const gpu::AttentionDelta<A> delta{.mixed = layer.mixed + first,
                                       .dmixed = b_.dnormal + first,
                                       .delta = b_.delta + statistics,
                                       .batch = static_cast<unsigned>(d_.batch),
                                       .context = static_cast<unsigned>(d_.tokens),
                                       .heads = static_cast<unsigned>(d_.shard_heads)};
    const gpu::AttentionGradients<A> attention{.qkv = layer.qkv + 3 * first,
                                               .dmixed = delta.dmixed,
                                               .log_sum = layer.log_sum + statistics,
                                               .delta = delta.delta,
                                               .dqkv = b_.dwide + 3 * first,
                                               .batch = delta.batch,
                                               .context = delta.context,
                                               .heads = delta.heads};
    work(delta)(gpu::AttentionQueries<A>{attention})(gpu::AttentionKeys<A>{attention});
  }
  ColumnBackward(work, qkv_, QkvOf(l), gradients);
  float* bias_before = stage_.first() ? nullptr : b_.dx + stream_size();
  if (l > 0) bias_before = gradients + offsets_[l - 1].out_bias;
  NormBackward(work, Stream(l), layer.mean1, layer.rstd1, at.norm1_weight, true, gradients,
               bias_before);
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

template class CudaNetwork<Bf16>;
template class CudaNetwork<float>;

}  // namespace lockstep::trainer
