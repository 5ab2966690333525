#include "worker/trainer/model/decode.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "worker/trainer/model/network.h"
#include "worker/trainer/model/product.h"

namespace lockstep::trainer {
namespace {

constexpr size_t kColumns = 192;  // of a product that one thread takes at a time

}  // namespace

Decoder::Decoder(const Shape& shape, std::span<const float> parameters, Threads& threads)
    : shape_(shape),
      parameters_(parameters),
      threads_(threads),
      kernels_(CpuKernels<float, float>()),
      list_(Parameters(shape)) {
  assert(parameters.size() == ParameterCount(shape));
  const auto width = static_cast<size_t>(shape.width);
  const auto tokens = static_cast<size_t>(shape.context);
  keys_.resize(static_cast<size_t>(shape.layers) * tokens * width);
  values_.resize(keys_.size());
  x_.resize(width);
  normal_.resize(width);
  qkv_.resize(3 * width);
  mixed_.resize(width);
  wide_.resize(4 * width);
  slope_.resize(4 * width);
  scores_.resize(static_cast<size_t>(shape.heads) * tokens);
  logits_.resize(static_cast<size_t>(shape.vocabulary));
}

std::span<const float> Decoder::Step(int32_t token) {
  const auto context = static_cast<size_t>(shape_.context);
  if (read_.size() == context) {
    const std::vector<int32_t> newer(read_.end() - static_cast<ptrdiff_t>(context / 2),
                                     read_.end());
    Reset();
    for (const int32_t old : newer) Advance(old);
  }
  Advance(token);
  Head();
  return logits_;
}

Result<std::span<const float>> Decoder::Read(std::span<const int32_t> tokens) {
  assert(!tokens.empty());
  for (const int32_t token : tokens) Step(token);
  return std::span<const float>(logits_);
}

void Decoder::Advance(int32_t token) {
  assert(token >= 0 && token < shape_.vocabulary);
  const size_t width = x_.size();
  const float* wte = parameters_.data() + static_cast<size_t>(token) * width;
  const float* wpe = parameters_.data() + list_[1].offset + read_.size() * width;
  for (size_t i = 0; i < width; ++i) x_[i] = wte[i] + wpe[i];
  for (size_t l = 0; l < static_cast<size_t>(shape_.layers); ++l) {
    const LayerOffsets at(list_, l);
    Normalise(at.norm1_weight, at.norm1_bias);
    Linear(normal_, at.qkv_weight, at.qkv_bias, qkv_, false);
    Attend(l);
    Linear(mixed_, at.proj_weight, at.proj_bias, x_, true);
    Normalise(at.norm2_weight, at.norm2_bias);
    Linear(normal_, at.fc_weight, at.fc_bias, wide_, false);
    kernels_.gelu(wide_.data(), wide_.size(), wide_.data(), slope_.data());
    Linear(wide_, at.out_weight, at.out_bias, x_, true);
  }
  read_.push_back(token);
}

void Decoder::Linear(std::span<const float> x, size_t weight, size_t bias, std::span<float> y,
                     bool add) {
  const size_t columns = y.size();
  threads_.For(BlocksOf(columns, kColumns), [&](size_t block) {
    const size_t first = block * kColumns;
    const size_t n = std::min(kColumns, columns - first);
    kernels_.add_bias(add ? y.data() + first : nullptr, parameters_.data() + bias + first, 1, n,
                      y.data() + first);
    Multiply({1, n, x.size()}, {x.data(), x.size()}, {parameters_.data() + weight + first, columns},
             {y.data() + first, columns, true});
  });
}

void Decoder::Normalise(size_t weight, size_t bias) {
  float mean = 0;
  float rstd = 0;
  kernels_.layer_norm(x_.data(),
                      {parameters_.data() + weight, parameters_.data() + bias, &mean, &rstd}, 1,
                      x_.size(), normal_.data());
}

void Decoder::Attend(size_t layer) {
  const size_t width = x_.size();
  const auto heads = static_cast<size_t>(shape_.heads);
  const auto tokens = static_cast<size_t>(shape_.context);
  const size_t depth = width / heads;
  const size_t row = read_.size();
  float* keys = keys_.data() + layer * tokens * width;
  float* values = values_.data() + layer * tokens * width;
  std::copy_n(qkv_.data() + width, width, keys + row * width);
  std::copy_n(qkv_.data() + 2 * width, width, values + row * width);
  const float scale = 1 / std::sqrt(static_cast<float>(depth));
  threads_.For(heads, [&](size_t head) {
    const size_t at = head * depth;
    float* scores = scores_.data() + head * tokens;
    float log_sum = 0;
    Multiply({1, row + 1, depth}, {qkv_.data() + at, depth}, {keys + at, width, true},
             {scores, tokens});
    kernels_.softmax(scores, 1, tokens, row + 1, row, scale, &log_sum);
    Multiply({1, depth, row + 1}, {scores, tokens}, {values + at, width},
             {mixed_.data() + at, depth});
  });
}

void Decoder::Head() {
  const size_t last = list_.size() - 1;
  Normalise(list_[last - 1].offset, list_[last].offset);
  const size_t width = x_.size();
  threads_.For(BlocksOf(logits_.size(), kColumns), [&](size_t block) {
    const size_t first = block * kColumns;
    const size_t n = std::min(kColumns, logits_.size() - first);
    Multiply({1, n, width}, {normal_.data(), width},
             {parameters_.data() + first * width, width, true}, {logits_.data() + first, n});
  });
}

}  // namespace lockstep::trainer
