#include "tests/worker/trainer/cuda/device/cases.h"

namespace lockstep::trainer::gpu {
namespace {

// The mean and 1 / the standard deviation of each row.
struct Statistics {
  Buffer<float> mean;
  Buffer<float> rstd;
};
Statistics StatisticsOf(const std::vector<double>& x, size_t width) {
  Statistics s;
  for (size_t at = 0; at < x.size(); at += width) {
    double mean = 0;
    double squares = 0;
    for (size_t c = 0; c < width; ++c) mean += x[at + c] / static_cast<double>(width);
    for (size_t c = 0; c < width; ++c) squares += (x[at + c] - mean) * (x[at + c] - mean);
    s.mean.push_back(static_cast<float>(mean));
    s.rstd.push_back(
        static_cast<float>(1 / std::sqrt(squares / static_cast<double>(width) + 1e-5)));
  }
  return s;
}

template <typename A>
Case ForwardCase(const std::string& name, unsigned rows, unsigned width, bool adds) {
  return {
      name, [=](const emulator::Options& options) {
        auto x = Random(rows * width, 1, 1, 0.5F);
        const auto y = Random<A>(x.size(), 2);
        const auto weight = Random(width, 3, 0.1F, 1);
        const auto bias = Random(width, 4);
        std::vector<double> sum = Doubles(x);
        if (adds) {
          for (size_t i = 0; i < sum.size(); ++i) sum[i] += Double(y[i]);
        }
        const Statistics s = StatisticsOf(sum, width);
        std::vector<double> right;
        for (size_t i = 0; i < sum.size(); ++i)
          right.push_back((sum[i] - s.mean[i / width]) * s.rstd[i / width] * weight[i % width] +
                          bias[i % width]);
        auto normal = Unset<A>(x.size());
        auto mean = Unset(rows);
        auto rstd = Unset(rows);
        return Sequence(options)
            .Run(ResidualNorm<A>{x.data(), adds ? y.data() : nullptr, x.data(), normal.data(),
                                 mean.data(), rstd.data(), weight.data(), bias.data(), rows, width})
            .Expect("sum", x, sum)
            .Expect("normal", normal, right)
            .Expect("mean", mean, Doubles(s.mean))
            .Expect("rstd", rstd, Doubles(s.rstd))
            .outcome();
      }};
}

template <typename A>
Case BackwardCase(const std::string& name, unsigned rows, unsigned width, bool residual) {
  return {name, [=](const emulator::Options& options) {
            const auto x = Random(rows * width, 1, 1, 0.5F);
            const auto dnormal = Random<A>(x.size(), 2);
            const auto weight = Random(width, 3, 0.1F, 1);
            const Statistics s = StatisticsOf(Doubles(x), width);
            auto dx = Random(x.size(), 4);
            std::vector<double> right = Doubles(dx);
            if (!residual) std::fill(right.begin(), right.end(), 0.0);
            std::vector<double> sums(3 * width);
            for (size_t row = 0; row < rows; ++row) {
              double a = 0;
              double b = 0;
              const auto normal = [&](size_t c) {
                return (Double(x[row * width + c]) - s.mean[row]) * s.rstd[row];
              };
              const auto d = [&](size_t c) { return Double(dnormal[row * width + c]); };
              for (size_t c = 0; c < width; ++c) {
                a += d(c) * weight[c] / width;
                b += d(c) * weight[c] * normal(c) / width;
              }
              for (size_t c = 0; c < width; ++c) {
                double& out = right[row * width + c];
                out += s.rstd[row] * (d(c) * weight[c] - a - normal(c) * b);
                sums[c] += d(c) * normal(c);
                sums[width + c] += d(c);
                sums[2 * width + c] += out;
              }
            }
            auto copy = Unset<A>(x.size());
            NormBackward<A> backward{dnormal.data(), x.data(),      s.mean.data(),
                                     s.rstd.data(),  weight.data(), residual ? dx.data() : nullptr,
                                     dx.data(),      copy.data(),   nullptr,
                                     rows,           width};
            auto partial = Unset(size_t{backward.parts()} * 3 * width);
            backward.partial = partial.data();
            auto all = Unset(3 * width);
            return Sequence(options)
                .Run(backward)
                .Run(ColumnSums{partial.data(),
                                {all.data(), all.data() + width, all.data() + 2 * width},
                                backward.parts(),
                                3,
                                width})
                .Expect("dx", dx, right)
                .Expect("dx_operand", copy, right)
                .Expect("sums", all, sums)
                .outcome();
          }};
}

template <typename A>
Case BiasCase(const std::string& name) {
  return {name, [](const emulator::Options& options) {
            const unsigned rows = 300;
            const unsigned width = 128;
            const auto dy = Random<A>(rows * width, 1);
            std::vector<double> right(width);
            for (size_t i = 0; i < dy.size(); ++i) right[i % width] += Double(dy[i]);
            BiasBackward<A> backward{dy.data(), nullptr, rows, width};
            auto partial = Unset(size_t{backward.parts()} * width);
            backward.partial = partial.data();
            auto sums = Unset(width);
            return Sequence(options)
                .Run(backward)
                .Run(ColumnSums{partial.data(), {sums.data()}, backward.parts(), 1, width})
                .Expect("sums", sums, right)
                .outcome();
          }};
}

}  // namespace

std::vector<Case> NormCases() {
  return {ForwardCase<Bf16>("residual_norm_bf16", 10, 192, true),
          ForwardCase<float>("residual_norm_fp32", 10, 64, true),
          ForwardCase<float>("norm_alone_fp32", 5, 768, false),
          BackwardCase<Bf16>("norm_backward_bf16", 147, 192, true),
          BackwardCase<float>("norm_backward_fp32", 70, 64, true),
          BackwardCase<float>("norm_backward_wide_and_without_residual", 12, 1600, false),
          BiasCase<Bf16>("bias_backward_bf16"),
          BiasCase<float>("bias_backward_fp32")};
}

}  // namespace lockstep::trainer::gpu
