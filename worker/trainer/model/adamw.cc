#include "worker/trainer/model/adamw.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>

namespace lockstep::trainer {
namespace {

constexpr size_t kBlock = 1 << 14;  // elements that one thread takes at a time

// Cuts [first, first + size) at the ends of parameters, and of shards within, and into blocks.
std::vector<Piece> Pieces(std::span<const Parameter> layout, size_t first, size_t size) {
  std::vector<Piece> pieces;
  for (const Parameter& parameter : layout) {
    const size_t slab = parameter.size / parameter.slabs;
    for (size_t i = 0; i < parameter.slabs; ++i) {
      const size_t begin = parameter.offset + i * slab;
      const size_t end = std::min(begin + slab, first + size);
      for (size_t at = std::max(begin, first); at < end; at += kBlock) {
        pieces.push_back({at, std::min(kBlock, end - at), parameter.decays});
      }
    }
  }
  return pieces;
}

}  // namespace

std::vector<Piece> PiecesOf(std::span<const Parameter> layout) {
  return Pieces(layout, 0, layout.back().offset + layout.back().size);
}

double TreeSum(std::span<const double> values) {
  if (values.empty()) return 0;
  if (values.size() == 1) return values[0];
  const size_t half = values.size() / 2;
  return TreeSum(values.first(half)) + TreeSum(values.subspan(half));
}

double LearningRate(int64_t step, double peak, int64_t warmup, int64_t decay) {
  constexpr double kFloor = 0.1;
  if (step < warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
  if (step >= decay) return decay > warmup ? peak * kFloor : peak;
  const double done = static_cast<double>(step - warmup) / static_cast<double>(decay - warmup);
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * done));
  return peak * (kFloor + (1 - kFloor) * cosine);
}

AdamWFactors<float> FactorsOf(int64_t t, double learning_rate, double scale, bool decays,
                              const AdamWOptions& options) {
  const auto steps = static_cast<double>(t);
  const double decay = decays ? options.weight_decay : 0;
  return {.keep = static_cast<float>(1 - learning_rate * decay),
          .scale = static_cast<float>(scale),
          .beta1 = static_cast<float>(options.beta1),
          .beta2 = static_cast<float>(options.beta2),
          .rate = static_cast<float>(learning_rate / (1 - std::pow(options.beta1, steps))),
          .root = static_cast<float>(1 / std::sqrt(1 - std::pow(options.beta2, steps))),
          .epsilon = static_cast<float>(options.epsilon)};
}

double SumOfSquares(std::span<const float> values, double scale, Threads& threads) {
  const size_t blocks = (values.size() + kBlock - 1) / kBlock;
  std::vector<double> sums(blocks);
  const auto& kernels = CpuKernels<float, float>();
  threads.For(blocks, [&](size_t block) {
    const size_t first = block * kBlock;
    sums[block] = kernels.sum_of_squares(values.data() + first,
                                         std::min(kBlock, values.size() - first), scale);
  });
  return TreeSum(sums);
}

std::vector<double> SquaresOf(std::span<const Parameter> layout, std::span<const float> values,
                              Threads& threads) {
  const std::vector<Piece> pieces = PiecesOf(layout);
  std::vector<double> squares(pieces.size());
  const auto& kernels = CpuKernels<float, float>();
  threads.For(pieces.size(), [&](size_t i) {
    squares[i] = kernels.sum_of_squares(values.data() + pieces[i].first, pieces[i].size, 1.0);
  });
  return squares;
}

size_t PieceCount(std::span<const Parameter> layout) {
  size_t count = 0;
  for (const Parameter& parameter : layout) {
    const size_t slab = parameter.size / parameter.slabs;
    count += parameter.slabs * ((slab + kBlock - 1) / kBlock);
  }
  return count;
}

void AdamWStep(std::span<const Parameter> layout, size_t first, std::span<float> parameters,
               std::span<const float> gradients, std::span<float> moment1, std::span<float> moment2,
               int64_t t, double learning_rate, double scale, const AdamWOptions& options,
               Threads& threads) {
  assert(moment1.size() == gradients.size() && moment2.size() == gradients.size());
  assert(parameters.size() == gradients.size());
  const std::vector<Piece> pieces = Pieces(layout, first, gradients.size());
  const auto with = FactorsOf(t, learning_rate, scale, true, options);
  const auto without = FactorsOf(t, learning_rate, scale, false, options);
  const auto& kernels = CpuKernels<float, float>();
  threads.For(pieces.size(), [&](size_t i) {
    const Piece& piece = pieces[i];
    const size_t at = piece.first - first;
    kernels.adamw(
        {parameters.data() + at, gradients.data() + at, moment1.data() + at, moment2.data() + at},
        piece.size, piece.decays ? with : without);
  });
}

}  // namespace lockstep::trainer
