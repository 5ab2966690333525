#include <algorithm>
#include <array>
#include <cassert>

#include "worker/trainer/model/attention.h"
#include "worker/trainer/model/network.h"

namespace lockstep::trainer {
namespace {

constexpr size_t kEmbeddingColumns = 64;

}  // namespace

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
  const size_t mixed = d_.shard_width;
  const LayerOffsets& at = offsets_[l];
  Layer& layer = held().layers[l];
  const T* x = l == 0 ? held().embedded : held().layers[l - 1].out;
  TransposeWeights(at);

  ForRowsBetweenSums({[&](const Rows& rows) { MlpBackward(layer, rows); },
                      [&](const Rows& rows) { ProjectBackward(at, layer, rows); }});
  const A* dwide = Operands(b_.dwide, b_.dwide_copy);
  std::vector<WeightGradient> weights;
  for (size_t shard = 0; shard < d_.shards; ++shard) {
    const size_t narrow = shard * d_.rows * mixed;
    const size_t square = shard * width * mixed;
    weights.push_back({layer.gelu + 4 * narrow, Operands(b_.dx, b_.dx_copy), 4 * mixed, width,
                       gradients + at.out_weight + 4 * square});
    weights.push_back({layer.normal2, dwide + 4 * narrow, width, 4 * mixed,
                       gradients + at.fc_weight + 4 * square});
    weights.push_back({layer.mixed + narrow, Operands(b_.dmiddle, b_.dmiddle_copy), mixed, width,
                       gradients + at.proj_weight + square});
  }
  const std::array<PartialSum, 5> mlp_sums = {
      PartialSum{0, d_.shards * 4 * mixed, gradients + at.fc_bias},
      PartialSum{4 * width, width, gradients + at.out_bias},
      PartialSum{5 * width, width, gradients + at.norm2_weight},
      PartialSum{6 * width, width, gradients + at.norm2_bias},
      PartialSum{7 * width, width, gradients + at.proj_bias}};
  SumOverRows(weights, mlp_sums);
  complete(at.proj_weight);

  ForHeads(layer, [&](const AttentionHead<T>& head, const HeadPlace& place) {
    AttendBackward(kernels_, head, b_.dnormal + place.mixed, b_.dwide + place.qkv);
  });
  ForRowsBetweenSums({[&](const Rows& rows) { QkvBackward(rows); },
                      [&](const Rows& rows) { NormBackward(x, at, layer, rows); }});
  weights.clear();
  for (size_t shard = 0; shard < d_.shards; ++shard) {
    weights.push_back({layer.normal1, dwide + shard * d_.rows * 3 * mixed, width, 3 * mixed,
                       gradients + at.qkv_weight + shard * width * 3 * mixed});
  }
  const std::array<PartialSum, 3> qkv_sums = {
      PartialSum{0, d_.shards * 3 * mixed, gradients + at.qkv_bias},
      PartialSum{3 * width, width, gradients + at.norm1_weight},
      PartialSum{4 * width, width, gradients + at.norm1_bias}};
  SumOverRows(weights, qkv_sums);
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
  const size_t mixed = d_.shard_width;
  std::vector<Matrix> matrices;
  for (size_t shard = 0; shard < d_.shards; ++shard) {
    const size_t square = shard * width * mixed;
    matrices.push_back({at.qkv_weight + 3 * square, QkvTransposed(shard), width, 3 * mixed});
    matrices.push_back({at.proj_weight + square, ProjTransposed(shard), mixed, width});
    matrices.push_back({at.fc_weight + 4 * square, FcTransposed(shard), width, 4 * mixed});
    matrices.push_back({at.out_weight + 4 * square, OutTransposed(shard), 4 * mixed, width});
  }
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

// From dx, of the block's output, to the gradient of LayerNorm 2's output.
template <typename T, typename A>
void Network<T, A>::MlpBackward(Layer& layer, const Rows& rows) {
  const size_t width = d_.width;
  const size_t wide = 4 * d_.shard_width;
  T* sums = Partial(rows);
  std::fill_n(sums, 8 * width, T{0});

  const A* dx = Convert(b_.dx, b_.dx_copy, rows, width);
  kernels_.add_rows(b_.dx + rows.first * width, rows.count, width, sums + 4 * width);
  for (size_t shard = 0; shard < d_.shards; ++shard) {
    const size_t first = OfShard(shard, rows).first * wide;
    T* dwide = b_.dwide + first;
    Multiply({rows.count, wide, width}, {dx, width}, {b_.transposed + OutTransposed(shard), wide},
             {dwide, wide});
    kernels_.scale_by(dwide, layer.slope + first, rows.count * wide, dwide);
    kernels_.add_rows(dwide, rows.count, wide, sums + shard * wide);
  }
  SumShards(rows, [&](size_t shard, T* out) {
    const A* dfc = Convert(b_.dwide, b_.dwide_copy, OfShard(shard, rows), wide);
    Multiply({rows.count, width, wide}, {dfc, wide}, {b_.transposed + FcTransposed(shard), width},
             {out, width});
  });
}

// From that to dmiddle and to dnormal, of `mixed`.
template <typename T, typename A>
void Network<T, A>::ProjectBackward(const LayerOffsets& at, Layer& layer, const Rows& rows) {
  const size_t width = d_.width;
  const size_t mixed = d_.shard_width;
  const size_t narrow = rows.first * width;
  T* sums = Partial(rows);
  const auto norm = Norm(at.norm2_weight, at.norm2_bias, layer.mean2, layer.rstd2, rows.first);
  kernels_.layer_norm_backward(b_.sum + narrow, layer.middle + narrow, norm, rows.count, width,
                               b_.dx + narrow, b_.dmiddle + narrow, sums + 5 * width,
                               sums + 6 * width);

  const A* dmiddle = Convert(b_.dmiddle, b_.dmiddle_copy, rows, width);
  kernels_.add_rows(b_.dmiddle + narrow, rows.count, width, sums + 7 * width);
  for (size_t shard = 0; shard < d_.shards; ++shard) {
    Multiply({rows.count, mixed, width}, {dmiddle, width},
             {b_.transposed + ProjTransposed(shard), mixed},
             {b_.dnormal + OfShard(shard, rows).first * mixed, mixed});
  }
}

// From dwide, of qkv, to the gradient of LayerNorm 1's output.
template <typename T, typename A>
void Network<T, A>::QkvBackward(const Rows& rows) {
  const size_t width = d_.width;
  const size_t wide = 3 * d_.shard_width;
  T* sums = Partial(rows);
  std::fill_n(sums, 5 * width, T{0});

  SumShards(rows, [&](size_t shard, T* out) {
    const Rows of = OfShard(shard, rows);
    const A* dqkv = Convert(b_.dwide, b_.dwide_copy, of, wide);
    kernels_.add_rows(b_.dwide + of.first * wide, rows.count, wide, sums + shard * wide);
    Multiply({rows.count, width, wide}, {dqkv, wide}, {b_.transposed + QkvTransposed(shard), width},
             {out, width});
  });
}

// From that to dx, of the block's input x.
template <typename T, typename A>
void Network<T, A>::NormBackward(const T* x, const LayerOffsets& at, Layer& layer,
                                 const Rows& rows) {
  const size_t width = d_.width;
  const size_t narrow = rows.first * width;
  T* sums = Partial(rows);
  const auto norm = Norm(at.norm1_weight, at.norm1_bias, layer.mean1, layer.rstd1, rows.first);
  kernels_.layer_norm_backward(b_.sum + narrow, x + narrow, norm, rows.count, width,
                               b_.dmiddle + narrow, b_.dx + narrow, sums + 3 * width,
                               sums + 4 * width);
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
