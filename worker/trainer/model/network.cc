#include "worker/trainer/model/network.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "worker/trainer/model/attention.h"

namespace lockstep::trainer {
namespace {

// Of a weight gradient's tile, which one thread makes in one product.
constexpr size_t kTileRows = 96;
constexpr size_t kTileColumns = 384;

constexpr size_t kConvertBlock = 1 << 16;  // elements

}  // namespace

LayerOffsets::LayerOffsets(const std::vector<Parameter>& list, size_t layer, size_t before) {
  const Parameter* p = &list[before + layer * 12];
  const std::array<size_t*, 12> fields = {&norm1_weight, &norm1_bias, &qkv_weight,   &qkv_bias,
                                          &proj_weight,  &proj_bias,  &norm2_weight, &norm2_bias,
                                          &fc_weight,    &fc_bias,    &out_weight,   &out_bias};
  for (size_t i = 0; i < fields.size(); ++i) *fields[i] = p[i].offset;
}

template <typename T, typename A>
Network<T, A>::Network(const Shape& shape, int batch, Threads& threads, const Stage& stage,
                       int held, Share<T> share)
    : stage_(stage),
      d_(shape, batch, stage),
      list_(Parameters(shape, stage)),
      parameters_count_(HeldCount(shape, stage)),
      head_(stage.has_head_copy() ? OwnedCount(shape, stage) : 0),
      threads_(threads),
      share_(std::move(share)),
      kernels_(CpuKernels<T, A>()),
      arena_(PredictBytes(shape, batch, stage, held)),
      b_(d_, parameters_count_, stage, held, arena_),
      inputs_(b_.held.size()) {
  const size_t before = stage.first() ? 2 : 0;
  for (size_t l = 0; l < d_.layers; ++l) offsets_.emplace_back(list_, l, before);
}

template <typename T, typename A>
size_t Network<T, A>::PredictBytes(const Shape& shape, int batch, const Stage& stage, int held) {
  Arena counter;
  const Buffers<T, A> buffers(Dimensions(shape, batch, stage), HeldCount(shape, stage), stage, held,
                              counter);
  return counter.used();
}

template <typename T, typename A>
void Network<T, A>::ForRows(const std::function<void(const Rows&)>& body) {
  threads_.For(d_.row_blocks, [&](size_t block) {
    const size_t first = block * kRowBlock;
    body({block, first, std::min(kRowBlock, d_.rows - first)});
  });
}

template <typename T, typename A>
void Network<T, A>::ForRowsBetweenSums(
    std::initializer_list<std::function<void(const Rows&)>> steps) {
  if (!d_.sharded) {
    ForRows([&](const Rows& rows) {
      for (const auto& step : steps) step(rows);
    });
    return;
  }
  bool first = true;
  for (const auto& step : steps) {
    if (!std::exchange(first, false) && share_) share_({b_.sum, d_.rows * d_.width});
    ForRows(step);
  }
}

template <typename T, typename A>
void Network<T, A>::SumShards(const Rows& rows, size_t first, size_t count, size_t level, T* out,
                              const ShardProduct& product) {
  if (count == 1) return product(first, out);
  const size_t half = count / 2;
  T* other = b_.levels + (level * d_.rows + rows.first) * d_.width;
  SumShards(rows, first, half, level, out, product);
  SumShards(rows, first + half, half, level + 1, other, product);
  for (size_t i = 0; i < rows.count * d_.width; ++i) out[i] += other[i];
}

template <typename T, typename A>
void Network<T, A>::SumShards(const Rows& rows, const ShardProduct& product) {
  SumShards(rows, 0, d_.shards, 0, b_.sum + rows.first * d_.width, product);
}

template <typename T, typename A>
void Network<T, A>::UseParameters(const T* parameters) {
  parameters_ = parameters;
  if constexpr (Buffers<T, A>::kConverts) {
    const size_t count = parameters_count_;
    threads_.For(BlocksOf(count, kConvertBlock), [&](size_t block) {
      const size_t first = block * kConvertBlock;
      const size_t n = std::min(kConvertBlock, count - first);
      kernels_.convert(parameters + first, n, 1, n, b_.weights + first, n);
    });
    weights_ = b_.weights;
  } else {
    weights_ = parameters;
  }
}

// All of x as operands of products.
template <typename T, typename A>
const A* Network<T, A>::Operands(const T* x, const A* copy) {
  if constexpr (Buffers<T, A>::kConverts) {
    return copy;
  } else {
    return x;
  }
}

// The rows of x[N, width] as operands of products: themselves, or a converted copy.
template <typename T, typename A>
const A* Network<T, A>::Convert(const T* x, A* copy, const Rows& rows, size_t width) {
  const size_t at = rows.first * width;
  if constexpr (Buffers<T, A>::kConverts) {
    kernels_.convert(x + at, width, rows.count, width, copy + at, width);
    return copy + at;
  } else {
    return x + at;
  }
}

template <typename T, typename A>
LayerNormState<T> Network<T, A>::Norm(size_t weight, size_t bias, T* mean, T* rstd,
                                      size_t row) const {
  return {parameters_ + weight, parameters_ + bias, mean + row, rstd + row};
}

template <typename T, typename A>
LayerNormState<T> Network<T, A>::FinalNorm(size_t row) const {
  const size_t last = list_.size() - 1;
  return Norm(list_[last - 1].offset, list_[last].offset, b_.mean, b_.rstd, row);
}

template <typename T, typename A>
void Network<T, A>::AddUp(const PartialSum& sum) {
  std::fill_n(sum.sum, sum.size, T{0});
  for (size_t block = 0; block < d_.row_blocks; ++block) {
    const T* part = b_.partial + block * 8 * d_.width + sum.at;
    for (size_t i = 0; i < sum.size; ++i) sum.sum[i] += part[i];
  }
}

template <typename T, typename A>
void Network<T, A>::SumOverRows(std::span<const WeightGradient> weights,
                                std::span<const PartialSum> sums) {
  struct Tile {
    const WeightGradient* weight;
    size_t row;
    size_t column;
  };
  std::vector<Tile> tiles;
  for (const WeightGradient& weight : weights) {
    for (size_t row = 0; row < weight.in; row += kTileRows) {
      for (size_t column = 0; column < weight.out; column += kTileColumns) {
        tiles.push_back({&weight, row, column});
      }
    }
  }
  threads_.For(tiles.size() + sums.size(), [&](size_t i) {
    if (i < sums.size()) return AddUp(sums[i]);
    const auto [w, row, column] = tiles[i - sums.size()];
    const Size size{std::min(kTileRows, w->in - row), std::min(kTileColumns, w->out - column),
                    d_.rows};
    Multiply(size, {w->x + row, w->in, true}, {w->dy + column, w->out},
             {w->dweight + row * w->out + column, w->out});
  });
}

// Forward.

template <typename T, typename A>
T Network<T, A>::Forward(const T* parameters, const int32_t* inputs, const int32_t* targets,
                         size_t slot) {
  UseParameters(parameters);
  slot_ = slot;
  Run(inputs);
  if (!stage_.last()) return 0;
  const T scale = 1 / static_cast<T>(d_.rows);
  ForRows([&](const Rows& rows) {
    T* logits = b_.logits + rows.first * d_.vocabulary;
    Head(logits, rows);
    kernels_.cross_entropy(logits, targets + rows.first, rows.count, d_.vocabulary, scale,
                           b_.losses + rows.first);
    Convert(b_.logits, b_.logits_copy, rows, d_.vocabulary);
  });
  double sum = 0;
  for (size_t row = 0; row < d_.rows; ++row) sum += static_cast<double>(b_.losses[row]);
  return static_cast<T>(sum / static_cast<double>(d_.rows));
}

template <typename T, typename A>
const T* Network<T, A>::LastOut() const {
  const HeldBuffers<T, A>& held = b_.held[slot_];
  return held.layers.empty() ? held.embedded : held.layers.back().out;
}

template <typename T, typename A>
void Network<T, A>::Logits(const T* parameters, const int32_t* inputs, T* logits) {
  assert(stage_.count == 1);
  UseParameters(parameters);
  slot_ = 0;
  Run(inputs);
  ForRows([&](const Rows& rows) { Head(logits + rows.first * d_.vocabulary, rows); });
}

template <typename T, typename A>
void Network<T, A>::Run(const int32_t* inputs) {
  if (stage_.first()) {
    inputs_[slot_].assign(inputs, inputs + d_.rows);
    ForRows([&](const Rows& rows) { Embed(rows); });
  }
  const T* x = held().embedded;
  for (size_t l = 0; l < d_.layers; ++l) {
    Layer& layer = held().layers[l];
    ForRows([&](const Rows& rows) { NormAndQkv(x, offsets_[l], layer, rows); });
    ForHeads(layer, [&](const AttentionHead<T>& head, const HeadPlace& at) {
      Attend(kernels_, head, layer.mixed + at.mixed);
    });
    ForRowsBetweenSums(
        {[&](const Rows& rows) { Project(x, offsets_[l], layer, rows); },
         [&](const Rows& rows) { Mlp(x, offsets_[l], layer, rows); },
         [&](const Rows& rows) { AddSum(layer.middle, offsets_[l].out_bias, layer.out, rows); }});
    x = layer.out;
  }
}

// embedded = wte[token] + wpe[position]
template <typename T, typename A>
void Network<T, A>::Embed(const Rows& rows) {
  const T* wte = parameters_;
  const T* wpe = parameters_ + list_[1].offset;
  for (size_t row = rows.first; row < rows.first + rows.count; ++row) {
    const int32_t input = inputs_[slot_][row];
    assert(input >= 0 && static_cast<size_t>(input) < d_.vocabulary);
    const T* token = wte + static_cast<size_t>(input) * d_.width;
    const T* position = wpe + row % d_.tokens * d_.width;
    T* x = held().embedded + row * d_.width;
    for (size_t i = 0; i < d_.width; ++i) x[i] = token[i] + position[i];
  }
}

// qkv = LayerNorm(x) Wqkv + bias
template <typename T, typename A>
void Network<T, A>::NormAndQkv(const T* x, const LayerOffsets& at, Layer& layer, const Rows& rows) {
  const size_t width = d_.width;
  const size_t wide = 3 * d_.shard_width;
  A* normal = layer.normal1 + rows.first * width;
  const auto norm = Norm(at.norm1_weight, at.norm1_bias, layer.mean1, layer.rstd1, rows.first);
  kernels_.layer_norm(x + rows.first * width, norm, rows.count, width, normal);
  for (size_t shard = 0; shard < d_.shards; ++shard) {
    T* qkv = layer.qkv + OfShard(shard, rows).first * wide;
    kernels_.add_bias(nullptr, parameters_ + at.qkv_bias + shard * wide, rows.count, wide, qkv);
    Multiply({rows.count, wide, width}, {normal, width},
             {weights_ + at.qkv_weight + shard * width * wide, wide}, {qkv, wide, true});
  }
}

template <typename T, typename A>
void Network<T, A>::ForHeads(
    const Layer& layer,
    const std::function<void(const AttentionHead<T>&, const HeadPlace& at)>& body) {
  const size_t groups = d_.attention_groups;
  const size_t width = d_.shard_width;
  threads_.For(groups, [&](size_t group) {
    T* scratch = b_.scores + group * Buffers<T, A>::AttentionScratch(d_);
    for (size_t i = group; i < d_.batch_heads(); i += groups) {
      const size_t head = i % d_.heads;
      const size_t row = head / d_.shard_heads * d_.rows + i / d_.heads * d_.tokens;
      const size_t column = head % d_.shard_heads * d_.head_width;
      const HeadPlace at{row * width + column, row * 3 * width + column};
      body({d_.tokens, d_.head_width, width, layer.qkv + at.qkv, layer.log_sum + i * d_.tokens,
            scratch},
           at);
    }
  });
}

// to = from + bias + in W, of in[s, N, k]; of several shards b_.sum = in W, for AddSum().
template <typename T, typename A>
void Network<T, A>::AddProduct(const RowProduct& product, const Rows& rows) {
  const size_t width = d_.width;
  const size_t narrow = rows.first * width;
  const size_t k = product.k;
  if (!d_.sharded) {
    kernels_.add_bias(product.from + narrow, parameters_ + product.bias, rows.count, width,
                      product.to + narrow);
    Multiply({rows.count, width, k}, {product.in + rows.first * k, k},
             {weights_ + product.weight, width}, {product.to + narrow, width, true});
    return;
  }
  SumShards(rows, [&](size_t shard, T* out) {
    Multiply({rows.count, width, k}, {product.in + OfShard(shard, rows).first * k, k},
             {weights_ + product.weight + shard * k * width, width}, {out, width});
  });
}

// to = from + bias + b_.sum, of several shards.
template <typename T, typename A>
void Network<T, A>::AddSum(const T* from, size_t bias, T* to, const Rows& rows) {
  if (!d_.sharded) return;
  const size_t narrow = rows.first * d_.width;
  kernels_.add_bias(from + narrow, parameters_ + bias, rows.count, d_.width, to + narrow);
  const T* sum = b_.sum + narrow;
  for (size_t i = 0; i < rows.count * d_.width; ++i) to[narrow + i] += sum[i];
}

// middle = x + mixed Wproj + bias
template <typename T, typename A>
void Network<T, A>::Project(const T* x, const LayerOffsets& at, Layer& layer, const Rows& rows) {
  AddProduct({layer.mixed, d_.shard_width, at.proj_weight, at.proj_bias, x, layer.middle}, rows);
}

// out = middle + gelu(LayerNorm(middle) Wfc + bias) Wout + bias
template <typename T, typename A>
void Network<T, A>::Mlp(const T* x, const LayerOffsets& at, Layer& layer, const Rows& rows) {
  const size_t width = d_.width;
  const size_t wide = 4 * d_.shard_width;
  AddSum(x, at.proj_bias, layer.middle, rows);
  A* normal = layer.normal2 + rows.first * width;
  const auto norm = Norm(at.norm2_weight, at.norm2_bias, layer.mean2, layer.rstd2, rows.first);
  kernels_.layer_norm(layer.middle + rows.first * width, norm, rows.count, width, normal);

  for (size_t shard = 0; shard < d_.shards; ++shard) {
    const size_t first = OfShard(shard, rows).first * wide;
    T* fc = layer.slope + first;  // until gelu makes it the slope
    kernels_.add_bias(nullptr, parameters_ + at.fc_bias + shard * wide, rows.count, wide, fc);
    Multiply({rows.count, wide, width}, {normal, width},
             {weights_ + at.fc_weight + shard * width * wide, wide}, {fc, wide, true});
    kernels_.gelu(fc, rows.count * wide, layer.gelu + first, fc);
  }
  AddProduct({layer.gelu, wide, at.out_weight, at.out_bias, layer.middle, layer.out}, rows);
}

// logits = LayerNorm(x) wte'
template <typename T, typename A>
void Network<T, A>::Head(T* logits, const Rows& rows) {
  const size_t width = d_.width;
  const T* x = LastOut();
  A* normal = b_.normal + rows.first * width;
  kernels_.layer_norm(x + rows.first * width, FinalNorm(rows.first), rows.count, width, normal);
  Multiply({rows.count, d_.vocabulary, width}, {normal, width}, {weights_ + head_, width, true},
           {logits, d_.vocabulary});
}

template class Network<float, float>;
template class Network<float, Bf16>;
template class Network<double, double>;

}  // namespace lockstep::trainer
