#include "tests/worker/trainer/cuda/device/cases.h"

namespace lockstep::trainer::gpu {
namespace {

struct Sizes {
  unsigned batch;
  unsigned context;
  unsigned heads;
  size_t rows() const { return size_t{batch} * context; }
  size_t width() const { return size_t{heads} * kHeadWidth; }
};

// Of all heads, in double.
struct Reference {
  std::vector<double> mixed;
  std::vector<double> log_sum;
  std::vector<double> delta;
  std::vector<double> dqkv;
};

// dmixed may be empty: forward alone.
Reference Attend(const Sizes& s, const std::vector<double>& qkv,
                 const std::vector<double>& dmixed) {
  const size_t width = s.width();
  Reference r;
  r.mixed.resize(s.rows() * width);
  r.log_sum.resize(s.rows() * s.heads);
  r.delta.resize(r.log_sum.size());
  r.dqkv.resize(s.rows() * 3 * width);
  std::vector<double> p(s.context);
  for (size_t bh = 0; bh < size_t{s.batch} * s.heads; ++bh) {
    const size_t row0 = bh / s.heads * s.context;
    const size_t column = bh % s.heads * kHeadWidth;
    const auto at = [&](size_t t, size_t part) {
      return (row0 + t) * 3 * width + part * width + column;
    };
    for (size_t t = 0; t < s.context; ++t) {
      double largest = -INFINITY;
      for (size_t j = 0; j <= t; ++j) {
        double dot = 0;
        for (size_t c = 0; c < kHeadWidth; ++c) dot += qkv[at(t, 0) + c] * qkv[at(j, 1) + c];
        p[j] = dot / 8;
        largest = std::max(largest, p[j]);
      }
      double sum = 0;
      for (size_t j = 0; j <= t; ++j) sum += p[j] = std::exp(p[j] - largest);
      r.log_sum[bh * s.context + t] = (largest + std::log(sum)) / std::log(2.0);
      const size_t out = (row0 + t) * width + column;
      for (size_t j = 0; j <= t; ++j) {
        p[j] /= sum;
        for (size_t c = 0; c < kHeadWidth; ++c) r.mixed[out + c] += p[j] * qkv[at(j, 2) + c];
      }
      if (dmixed.empty()) continue;
      double delta = 0;
      for (size_t c = 0; c < kHeadWidth; ++c) delta += r.mixed[out + c] * dmixed[out + c];
      r.delta[bh * s.context + t] = delta;
      for (size_t j = 0; j <= t; ++j) {
        double dp = 0;
        for (size_t c = 0; c < kHeadWidth; ++c) dp += dmixed[out + c] * qkv[at(j, 2) + c];
        const double ds = p[j] * (dp - delta) / 8;
        for (size_t c = 0; c < kHeadWidth; ++c) {
          r.dqkv[at(t, 0) + c] += ds * qkv[at(j, 1) + c];
          r.dqkv[at(j, 1) + c] += ds * qkv[at(t, 0) + c];
          r.dqkv[at(j, 2) + c] += p[j] * dmixed[out + c];
        }
      }
    }
  }
  return r;
}

template <typename A>
Case Forward(const std::string& name, const Sizes& s) {
  const auto qkv = Random<A>(s.rows() * 3 * s.width(), 1);
  return {name, [s, qkv, right = Attend(s, Doubles(qkv), {})](const emulator::Options& options) {
            auto mixed = Unset<A>(s.rows() * s.width());
            auto log_sum = Unset(s.rows() * s.heads);
            return Sequence(options)
                .Run(Attention<A>{qkv.data(), mixed.data(), log_sum.data(), s.batch, s.context,
                                  s.heads})
                .Expect("mixed", mixed, right.mixed)
                .Expect("log_sum", log_sum, right.log_sum)
                .outcome();
          }};
}

// Three kernels, which share what comes from the forward pass.
template <typename A>
Case Backward(const std::string& name, const Sizes& s) {
  const auto qkv = Random<A>(s.rows() * 3 * s.width(), 2);
  const auto dmixed = Random<A>(s.rows() * s.width(), 3);
  return {name,
          [=, right = Attend(s, Doubles(qkv), Doubles(dmixed))](const emulator::Options& options) {
            Buffer<A> mixed;
            for (const double x : right.mixed) mixed.push_back(As<A>(static_cast<float>(x)));
            const Buffer<float> log_sum(right.log_sum.begin(), right.log_sum.end());
            auto delta = Unset(s.rows() * s.heads);
            auto dqkv = Unset<A>(qkv.size());
            const AttentionGradients<A> gradients{qkv.data(),   dmixed.data(), log_sum.data(),
                                                  delta.data(), dqkv.data(),   s.batch,
                                                  s.context,    s.heads};
            return Sequence(options)
                .Run(AttentionDelta<A>{mixed.data(), dmixed.data(), delta.data(), s.batch,
                                       s.context, s.heads})
                .Run(AttentionQueries<A>{gradients})
                .Run(AttentionKeys<A>{gradients})
                .Expect("delta", delta, right.delta, kTolerance<A>)
                .Expect("dqkv", dqkv, right.dqkv)
                .outcome();
          }};
}

}  // namespace

// Tiles of 64: one that is not full, exactly one, and enough that a buffer is filled again.
std::vector<Case> AttentionCases() {
  return {Forward<Bf16>("attention_bf16", {1, 170, 2}),
          Forward<Bf16>("attention_bf16_short", {2, 20, 1}),
          Forward<Bf16>("attention_bf16_whole_tile", {1, 64, 1}),
          Forward<float>("attention_fp32", {2, 80, 2}),
          Backward<Bf16>("attention_backward_bf16", {1, 170, 2}),
          Backward<Bf16>("attention_backward_bf16_short", {2, 20, 1}),
          Backward<float>("attention_backward_fp32", {2, 80, 2})};
}

}  // namespace lockstep::trainer::gpu
