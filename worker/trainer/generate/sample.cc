#include "worker/trainer/generate/sample.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace lockstep::trainer {

int32_t Sampler::Next(std::span<const float> logits) {
  assert(!logits.empty());
  const bool greedy = options_.temperature <= 0;
  size_t count = logits.size();
  if (options_.top_k > 0) count = std::min(count, static_cast<size_t>(options_.top_k));
  if (greedy) count = 1;

  tokens_.resize(logits.size());
  std::iota(tokens_.begin(), tokens_.end(), 0);
  const auto logit = [&](int32_t token) { return logits[static_cast<size_t>(token)]; };
  const auto likelier = [&](int32_t a, int32_t b) {
    return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
  };
  std::partial_sort(tokens_.begin(), tokens_.begin() + static_cast<ptrdiff_t>(count), tokens_.end(),
                    likelier);
  if (count == 1) return tokens_[0];

  weights_.resize(count);
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    const double below = static_cast<double>(logit(tokens_[i])) - logit(tokens_[0]);
    weights_[i] = std::exp(below / options_.temperature);
    sum += weights_[i];
  }
  double left = random_.Unit() * sum;
  for (size_t i = 0; i + 1 < count; ++i) {
    left -= weights_[i];
    if (left < 0) return tokens_[i];
  }
  return tokens_[count - 1];
}

}  // namespace lockstep::trainer
