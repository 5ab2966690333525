#include "worker/trainer/model/network.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "worker/trainer/model/attention.h"

namespace lockstep::trainer {
namespace {

// Of a weight gradient's tile, which one thread makes in one product.
constexpr size_t kTileRows = 96;
constexpr size_t kTileColumns = 384;

constexpr size_t kConvertBlock = 1 << 16;  // elements
constexpr size_t kEmbeddingColumns = 64;

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
                       int held)
    : stage_(stage),
      d_(shape, batch, stage),
      list_(Parameters(shape, stage)),
      parameters_count_(HeldCount(shape, stage)),
      head_(stage.has_head_copy() ? OwnedCount(shape, stage) : 0),
      threads_(threads),
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
    ForHeads(layer, [&](const AttentionHead<T>& head, size_t at) {
      Attend(kernels_, head, layer.mixed + at);
    });
    ForRows([&](const Rows& rows) { ProjectAndMlp(x, offsets_[l], layer, rows); });
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
  A* normal = layer.normal1 + rows.first * width;
  T* qkv = layer.qkv + rows.first * 3 * width;
  const auto norm = Norm(at.norm1_weight, at.norm1_bias, layer.mean1, layer.rstd1, rows.first);
  kernels_.layer_norm(x + rows.first * width, norm, rows.count, width, normal);
  kernels_.add_bias(nullptr, parameters_ + at.qkv_bias, rows.count, 3 * width, qkv);
  Multiply({rows.count, 3 * width, width}, {normal, width}, {weights_ + at.qkv_weight, 3 * width},
           {qkv, 3 * width, true});
}

// `at` is where the head's first output lies in [N, C].
template <typename T, typename A>
void Network<T, A>::ForHeads(const Layer& layer,
                             const std::function<void(const AttentionHead<T>&, size_t at)>& body) {
  const size_t groups = d_.attention_groups;
  threads_.For(groups, [&](size_t group) {
    T* scratch = b_.scores + group * Buffers<T, A>::AttentionScratch(d_);
    for (size_t i = group; i < d_.batch_heads(); i += groups) {
      const size_t first_row = i / d_.heads * d_.tokens;
      const size_t column = i % d_.heads * d_.head_width;
      const T* qkv = layer.qkv + first_row * 3 * d_.width + column;
      body({d_.tokens, d_.head_width, d_.width, qkv, layer.log_sum + i * d_.tokens, scratch},
           first_row * d_.width + column);
    }
  });
}

// middle = x + mixed Wproj + bias; out = middle + gelu(LayerNorm(middle) Wfc + bias) Wout + bias
template <typename T, typename A>
void Network<T, A>::ProjectAndMlp(const T* x, const LayerOffsets& at, Layer& layer,
                                  const Rows& rows) {
  const size_t width = d_.width;
  const size_t narrow = rows.first * width;
  const size_t wide = rows.first * 4 * width;
  T* middle = layer.middle + narrow;
  kernels_.add_bias(x + narrow, parameters_ + at.proj_bias, rows.count, width, middle);
  Multiply({rows.count, width, width}, {layer.mixed + narrow, width},
           {weights_ + at.proj_weight, width}, {middle, width, true});

  A* normal = layer.normal2 + narrow;
  const auto norm = Norm(at.norm2_weight, at.norm2_bias, layer.mean2, layer.rstd2, rows.first);
  kernels_.layer_norm(middle, norm, rows.count, width, normal);

  T* fc = layer.slope + wide;  // until gelu makes it the slope
  kernels_.add_bias(nullptr, parameters_ + at.fc_bias, rows.count, 4 * width, fc);
  Multiply({rows.count, 4 * width, width}, {normal, width}, {weights_ + at.fc_weight, 4 * width},
           {fc, 4 * width, true});
  kernels_.gelu(fc, rows.count * 4 * width, layer.gelu + wide, fc);

  T* out = layer.out + narrow;
  kernels_.add_bias(middle, parameters_ + at.out_bias, rows.count, width, out);
  Multiply({rows.count, width, 4 * width}, {layer.gelu + wide, 4 * width},
           {weights_ + at.out_weight, width}, {out, width, true});
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

// Backward.

template <typename T, typename A>
void Network<T, A>::Backward(const T* parameters, T* gradients,
                             const std::function<void(size_t from)>& complete, size_t slot) {
  assert(parameters == parameters_);
  static_cast<void>(parameters);
  slot_ = slot;
  if (stage_.last()) {
    HeadBackward(gradients);
    complete(list_[list_.size() - 2].offset);
  }
  for (size_t l = d_.layers; l-- > 0;) LayerBackward(l, gradients, complete);
  if (!stage_.first()) return;
  EmbedBackward(gradients);
  complete(0);
}

// dx of the last block's output; ln_f; and the head's part of wte.
template <typename T, typename A>
void Network<T, A>::HeadBackward(T* gradients) {
  const size_t width = d_.width;
  const size_t vocabulary = d_.vocabulary;
  const T* x = LastOut();
  const A* dlogits = Operands(b_.logits, b_.logits_copy);
  ForRows([&](const Rows& rows) {
    T* dnormal = b_.dnormal + rows.first * width;
    T* sums = Partial(rows);
    std::fill_n(sums, 2 * width, T{0});
    Multiply({rows.count, width, vocabulary}, {dlogits + rows.first * vocabulary, vocabulary},
             {weights_ + head_, width}, {dnormal, width});
    kernels_.layer_norm_backward(dnormal, x + rows.first * width, FinalNorm(rows.first), rows.count,
                                 width, nullptr, b_.dx + rows.first * width, sums, sums + width);
  });
  T* dwte = stage_.has_head_copy() ? b_.head_gradient : gradients;
  const WeightGradient wte{dlogits, b_.normal, vocabulary, width, dwte};
  const std::array<PartialSum, 2> sums = {
      PartialSum{0, width, gradients + list_[list_.size() - 2].offset},
      PartialSum{width, width, gradients + list_.back().offset}};
  SumOverRows({&wte, 1}, sums);
}

template <typename T, typename A>
void Network<T, A>::LayerBackward(size_t l, T* gradients,
                                  const std::function<void(size_t from)>& complete) {
  const size_t width = d_.width;
  const LayerOffsets& at = offsets_[l];
  Layer& layer = held().layers[l];
  const T* x = l == 0 ? held().embedded : held().layers[l - 1].out;
  TransposeWeights(at);

  ForRows([&](const Rows& rows) { MlpBackward(at, layer, rows); });
  const A* dwide = Operands(b_.dwide, b_.dwide_copy);
  const std::array<WeightGradient, 3> mlp = {
      WeightGradient{layer.gelu, Operands(b_.dx, b_.dx_copy), 4 * width, width,
                     gradients + at.out_weight},
      WeightGradient{layer.normal2, dwide, width, 4 * width, gradients + at.fc_weight},
      WeightGradient{layer.mixed, Operands(b_.dmiddle, b_.dmiddle_copy), width, width,
                     gradients + at.proj_weight}};
  const std::array<PartialSum, 5> mlp_sums = {
      PartialSum{0, 4 * width, gradients + at.fc_bias},
      PartialSum{4 * width, width, gradients + at.out_bias},
      PartialSum{5 * width, width, gradients + at.norm2_weight},
      PartialSum{6 * width, width, gradients + at.norm2_bias},
      PartialSum{7 * width, width, gradients + at.proj_bias}};
  SumOverRows(mlp, mlp_sums);
  complete(at.proj_weight);

  ForHeads(layer, [&](const AttentionHead<T>& head, size_t out) {
    const size_t row = out / width;
    const size_t column = out % width;
    AttendBackward(kernels_, head, b_.dnormal + out, b_.dwide + row * 3 * width + column);
  });
  ForRows([&](const Rows& rows) { QkvBackward(x, at, layer, rows); });
  const WeightGradient qkv{layer.normal1, dwide, width, 3 * width, gradients + at.qkv_weight};
  const std::array<PartialSum, 3> qkv_sums = {
      PartialSum{0, 3 * width, gradients + at.qkv_bias},
      PartialSum{3 * width, width, gradients + at.norm1_weight},
      PartialSum{4 * width, width, gradients + at.norm1_bias}};
  SumOverRows({&qkv, 1}, qkv_sums);
  complete(at.norm1_weight);
}

// The products with W' are faster with W' at hand: oneDNN packs a transposed operand slowly.
template <typename T, typename A>
void Network<T, A>::TransposeWeights(const LayerOffsets& at) {
  struct Matrix {
    size_t from;
    size_t to;
    size_t rows;
    size_t columns;
  };
  const size_t width = d_.width;
  const size_t square = width * width;
  const std::array<Matrix, 4> matrices = {Matrix{at.qkv_weight, 0, width, 3 * width},
                                          Matrix{at.proj_weight, 3 * square, width, width},
                                          Matrix{at.fc_weight, 4 * square, width, 4 * width},
                                          Matrix{at.out_weight, 8 * square, 4 * width, width}};
  const size_t parts = BlocksOf(width, kRowBlock);
  threads_.For(matrices.size() * parts, [&](size_t i) {
    const auto [from, to, rows, columns] = matrices[i / parts];
    const size_t share = BlocksOf(rows, parts);
    const size_t first = std::min(rows, i % parts * share);
    const size_t count = std::min(share, rows - first);
    kernels_.transpose(parameters_ + from + first * columns, columns, count, columns,
                       b_.transposed + to + first, rows);
  });
}

// From dx, of the block's output, to dmiddle and to dnormal, of `mixed`.
template <typename T, typename A>
void Network<T, A>::MlpBackward(const LayerOffsets& at, Layer& layer, const Rows& rows) {
  const size_t width = d_.width;
  const size_t square = width * width;
  const size_t narrow = rows.first * width;
  const size_t wide = rows.first * 4 * width;
  T* sums = Partial(rows);
  std::fill_n(sums, 8 * width, T{0});

  const A* dx = Convert(b_.dx, b_.dx_copy, rows, width);
  kernels_.add_rows(b_.dx + narrow, rows.count, width, sums + 4 * width);
  T* dwide = b_.dwide + wide;
  Multiply({rows.count, 4 * width, width}, {dx, width}, {b_.transposed + 8 * square, 4 * width},
           {dwide, 4 * width});
  kernels_.scale_by(dwide, layer.slope + wide, rows.count * 4 * width, dwide);
  kernels_.add_rows(dwide, rows.count, 4 * width, sums);

  const A* dfc = Convert(b_.dwide, b_.dwide_copy, rows, 4 * width);
  T* dnormal = b_.dnormal + narrow;
  Multiply({rows.count, width, 4 * width}, {dfc, 4 * width}, {b_.transposed + 4 * square, width},
           {dnormal, width});
  const auto norm = Norm(at.norm2_weight, at.norm2_bias, layer.mean2, layer.rstd2, rows.first);
  kernels_.layer_norm_backward(dnormal, layer.middle + narrow, norm, rows.count, width,
                               b_.dx + narrow, b_.dmiddle + narrow, sums + 5 * width,
                               sums + 6 * width);

  const A* dmiddle = Convert(b_.dmiddle, b_.dmiddle_copy, rows, width);
  kernels_.add_rows(b_.dmiddle + narrow, rows.count, width, sums + 7 * width);
  Multiply({rows.count, width, width}, {dmiddle, width}, {b_.transposed + 3 * square, width},
           {dnormal, width});
}

// From dwide, of qkv, to dx, of the block's input x.
template <typename T, typename A>
void Network<T, A>::QkvBackward(const T* x, const LayerOffsets& at, Layer& layer,
                                const Rows& rows) {
  const size_t width = d_.width;
  const size_t narrow = rows.first * width;
  T* sums = Partial(rows);
  std::fill_n(sums, 5 * width, T{0});

  const A* dqkv = Convert(b_.dwide, b_.dwide_copy, rows, 3 * width);
  kernels_.add_rows(b_.dwide + rows.first * 3 * width, rows.count, 3 * width, sums);
  T* dnormal = b_.dnormal + narrow;
  Multiply({rows.count, width, 3 * width}, {dqkv, 3 * width}, {b_.transposed, width},
           {dnormal, width});
  const auto norm = Norm(at.norm1_weight, at.norm1_bias, layer.mean1, layer.rstd1, rows.first);
  kernels_.layer_norm_backward(dnormal, x + narrow, norm, rows.count, width, b_.dmiddle + narrow,
                               b_.dx + narrow, sums + 3 * width, sums + 4 * width);
}

// Adds to wte what the tokens say, in the order of the rows, and makes wpe: the sum over sequences.
template <typename T, typename A>
void Network<T, A>::EmbedBackward(T* gradients) {
  const size_t width = d_.width;
  T* dwpe = gradients + list_[1].offset;
  threads_.For(BlocksOf(width, kEmbeddingColumns), [&](size_t block) {
    const size_t begin = block * kEmbeddingColumns;
    const size_t end = std::min(width, begin + kEmbeddingColumns);
    for (size_t row = 0; row < d_.rows; ++row) {
      const T* dx = b_.dx + row * width;
      T* token = gradients + static_cast<size_t>(inputs_[slot_][row]) * width;
      T* position = dwpe + row % d_.tokens * width;
      const bool first = row < d_.tokens;
      for (size_t i = begin; i < end; ++i) token[i] += dx[i];
      for (size_t i = begin; i < end; ++i) position[i] = first ? dx[i] : position[i] + dx[i];
    }
  });
}

template class Network<float, float>;
template class Network<float, Bf16>;
template class Network<double, double>;

}  // namespace lockstep::trainer
