#include "tests/worker/trainer/cuda/device/cases.h"

namespace lockstep::trainer::gpu {
namespace {

template <typename A>
std::string Name(const std::string& kernel) {
  return kernel + (std::is_same_v<A, Bf16> ? "_bf16" : "_fp32");
}

template <typename A>
Case ConvertCase() {
  return {Name<A>("convert_parameters"), [](const emulator::Options& options) {
            const auto from = Random(1280, 1);
            auto to = Unset<A>(1280 + 192);
            std::vector<double> right = Doubles(from);
            right.insert(right.begin() + 448, 192, 0.0);
            return Sequence(options)
                .Run(ConvertParameters<A>{from.data(), to.data(), from.size(), {448, 192}})
                .Expect("to", to, right)
                .outcome();
          }};
}

Case EmbedCase() {
  return {"embed", [](const emulator::Options& options) {
            const unsigned rows = 34;
            const unsigned context = 17;
            const unsigned width = 64;
            const auto wte = Random(10 * width, 1);
            const auto wpe = Random(context * width, 2);
            Buffer<int32_t> tokens;
            for (unsigned row = 0; row < rows; ++row)
              tokens.push_back(static_cast<int>(row * 7 % 10));
            auto x = Unset(rows * width);
            std::vector<double> right;
            for (unsigned i = 0; i < rows * width; ++i)
              right.push_back(
                  Double(wte[static_cast<unsigned>(tokens[i / width]) * width + i % width]) +
                  wpe[i / width % context * width + i % width]);
            return Sequence(options)
                .Run(Embed{tokens.data(), wte.data(), wpe.data(), x.data(), rows, context, width})
                .Expect("x", x, right)
                .outcome();
          }};
}

template <typename A>
Case ResidualCase() {
  return {Name<A>("residual_add_and_bias"), [](const emulator::Options& options) {
            const unsigned width = 64;
            const unsigned rows = 21;
            auto x = Random(rows * width, 1);
            auto y = Random<A>(x.size(), 2);
            const auto bias = Random(width, 3);
            std::vector<double> biased;
            for (size_t i = 0; i < y.size(); ++i) biased.push_back(double{x[i]} + bias[i % width]);
            Sequence sequence(options);
            sequence.Run(AddBias<A>{x.data(), nullptr, y.data(), rows, width})
                .Expect("copy", y, std::vector<double>(x.begin(), x.end()))
                .Run(AddBias<A>{x.data(), bias.data(), y.data(), rows, width})
                .Expect("y", y, biased);
            std::vector<double> sums;
            for (size_t i = 0; i < x.size(); ++i) sums.push_back(Double(x[i]) + Double(y[i]));
            return sequence.Run(ResidualAdd<A>{x.data(), y.data(), x.data(), x.size()})
                .Expect("sum", x, sums)
                .outcome();
          }};
}

template <typename A>
Case GeluCase() {
  return {Name<A>("gelu"), [](const emulator::Options& options) {
            auto x = Random<A>(3000, 1, 2);
            x[0] = As<A>(-60.0F);
            x[1] = As<A>(60.0F);
            const auto dy = Random<A>(x.size(), 2);
            auto y = Unset<A>(x.size());
            auto dx = dy;
            std::vector<double> right_y;
            std::vector<double> right_dx;
            for (size_t i = 0; i < x.size(); ++i) {
              const double v = Double(x[i]);
              const double root = std::sqrt(2 / M_PI);
              const double t = std::tanh(root * (v + 0.044715 * v * v * v));
              right_y.push_back(0.5 * v * (1 + t));
              right_dx.push_back(Double(dy[i]) * (0.5 * (1 + t) + 0.5 * v * (1 - t * t) * root *
                                                                      (1 + 3 * 0.044715 * v * v)));
            }
            return Sequence(options)
                .Run(Gelu<A>{x.data(), y.data(), x.size()})
                .Run(GeluBackward<A>{x.data(), dx.data(), dx.data(), x.size()})
                .Expect("y", y, right_y)
                .Expect("dx", dx, right_dx)
                .outcome();
          }};
}

// Tokens that come often, once and never.
Case EmbedBackwardCase() {
  return {
      "embed_backward", [](const emulator::Options& options) {
        const unsigned batch = 13;
        const unsigned context = 11;
        const unsigned width = 576;
        const unsigned vocabulary = 9;
        const auto dx = Random(batch * context * width, 1);
        std::vector<std::vector<int32_t>> of_token(vocabulary);
        for (unsigned row = 0; row < batch * context; ++row)
          of_token[row == 20 ? 1 : row % 3 > 0 ? 4 : row % 4 * 2].push_back(static_cast<int>(row));
        Buffer<int32_t> rows;
        Buffer<int32_t> starts{0};
        std::vector<double> right(vocabulary * width);
        std::vector<double> right_position(context * width);
        for (unsigned token = 0; token < vocabulary; ++token) {
          for (const int32_t row : of_token[token]) {
            rows.push_back(row);
            for (unsigned c = 0; c < width; ++c)
              right[token * width + c] += dx[static_cast<unsigned>(row) * width + c];
          }
          starts.push_back(static_cast<int>(rows.size()));
        }
        for (size_t i = 0; i < dx.size(); ++i) right_position[i % right_position.size()] += dx[i];
        auto dwte = Unset(right.size());
        auto dwpe = Unset(right_position.size());
        return Sequence(options)
            .Run(TokenBackward{dx.data(), rows.data(), starts.data(), dwte.data(), vocabulary,
                               width})
            .Run(PositionBackward{dx.data(), dwpe.data(), batch, context, width})
            .Expect("dwte", dwte, right)
            .Expect("dwpe", dwpe, right_position)
            .outcome();
      }};
}

Case CopyAndAddCase() {
  return {"copy_and_tree_add", [](const emulator::Options& options) {
            const auto x = Random(1027, 1);
            const auto part = Random(1027, 2);
            auto sum = Unset(1027);
            std::vector<double> right;
            for (size_t i = 0; i < x.size(); ++i) right.push_back(x[i] + part[i]);
            return Sequence(options)
                .Run(Copy{x.data(), sum.data(), x.size()})
                .Run(TreeAdd{sum.data(), part.data(), x.size()})
                .Expect("sum", sum, right, 0)
                .outcome();
          }};
}

float TreeSum(const Buffer<float>& parts, size_t stride, size_t first, size_t n, size_t i) {
  if (n == 1) return parts[first * stride + i];
  const size_t left = (n + 1) / 2;
  return TreeSum(parts, stride, first, left, i) + TreeSum(parts, stride, first + left, n - left, i);
}

// The tree to the bit.
Case SliceSumCase(unsigned n) {
  return {"slice_sum_" + std::to_string(n), [n](const emulator::Options& options) {
            const size_t count = 301;
            const size_t stride = 304;
            auto parts = Random(n * stride, n);
            std::vector<double> right;
            for (size_t i = 0; i < count; ++i) right.push_back(TreeSum(parts, stride, 0, n, i));
            auto sum = Unset(count);
            return Sequence(options)
                .Run(SliceSum{parts.data(), sum.data(), count, stride, n})
                .Expect("sum", sum, right, 0)
                .outcome();
          }};
}

}  // namespace

std::vector<Case> ElementCases() {
  std::vector<Case> cases = {ConvertCase<Bf16>(),  ConvertCase<float>(),  EmbedCase(),
                             ResidualCase<Bf16>(), ResidualCase<float>(), GeluCase<Bf16>(),
                             GeluCase<float>(),    EmbedBackwardCase(),   CopyAndAddCase()};
  for (const unsigned n : {1U, 2U, 3U, 4U, 7U, 8U, 13U}) cases.push_back(SliceSumCase(n));
  return cases;
}

}  // namespace lockstep::trainer::gpu
