#include <numeric>

#include "tests/worker/trainer/cuda/device/cases.h"
#include "worker/trainer/engine/replica.h"
#include "worker/trainer/engine/sync.h"
#include "worker/trainer/model/adamw.h"
#include "worker/trainer/process/parallel.h"

namespace lockstep::trainer::gpu {
namespace {

// The vocabulary is no multiple of anything, and its padding full of NaN.
template <typename A>
Case ClassifierCase(const std::string& name, unsigned vocabulary, unsigned stride) {
  return {name, [=](const emulator::Options& options) {
            const unsigned rows = 3;
            const float scale = 1.0F / rows;
            auto logits = Random<A>(rows * stride, 1, 3);
            const Buffer<int32_t> targets = {0, static_cast<int32_t>(vocabulary) - 1, 5};
            std::vector<double> losses;
            std::vector<double> gradients(logits.size());
            for (size_t row = 0; row < rows; ++row) {
              double sum = 0;
              for (size_t c = 0; c < vocabulary; ++c)
                sum += std::exp(Double(logits[row * stride + c]));
              const auto target = static_cast<size_t>(targets[row]);
              losses.push_back(std::log(sum) - Double(logits[row * stride + target]));
              for (size_t c = 0; c < vocabulary; ++c)
                gradients[row * stride + c] =
                    (std::exp(Double(logits[row * stride + c])) / sum - (c == target ? 1 : 0)) /
                    rows;
              for (size_t c = vocabulary; c < stride; ++c)
                logits[row * stride + c] = As<A>(std::nanf(""));
            }
            const double mean = std::accumulate(losses.begin(), losses.end(), 0.0) / rows;
            auto found = Unset(rows);
            auto loss = Unset(1);
            return Sequence(options)
                .Run(Classifier<A>{logits.data(), targets.data(), found.data(), scale, rows,
                                   vocabulary, stride})
                .Run(MeanLoss{found.data(), loss.data(), rows})
                .Expect("losses", found, losses)
                .Expect("gradients", logits, gradients)
                .Expect("mean", loss, {mean})
                .outcome();
          }};
}

Case MeanLossCase() {
  return {"mean_loss", [](const emulator::Options& options) {
            const auto losses = Random(1001, 1, 1, 5);
            const std::vector<double> all = Doubles(losses);
            auto loss = Unset(1);
            return Sequence(options)
                .Run(MeanLoss{losses.data(), loss.data(), 1001})
                .Expect("mean", loss, {std::accumulate(all.begin(), all.end(), 0.0) / 1001})
                .outcome();
          }};
}

// The whole step against the CPU's: its norm, its scale and its update.
template <typename A>
Case StepCase(const std::string& name, float gradient, double clip, float loss) {
  return {name, [=](const emulator::Options& options) {
            const Shape shape{.layers = 1, .heads = 1, .width = 64, .vocabulary = 33, .context = 8};
            const size_t count = ParameterCount(shape);
            const auto layout = Parameters(shape);
            auto parameters = Random(count, 1);
            auto gradients = Random(count, 2);
            gradients[7] = gradient;
            auto moment1 = Random(count, 3, 0.1F);
            auto moment2 = Random(count, 4, 0.1F);
            for (float& v : moment2) v = std::abs(v);
            const AdamWOptions adamw;
            StepOptions step;
            step.micro_batches = 4;
            step.clip = clip;
            Threads threads(1);
            const double squares = SumOfSquares(gradients, 1.0, threads);
            const Scale right = ScaleOf(squares, loss / 4.0, step);
            auto expected = parameters;
            auto expected1 = moment1;
            auto expected2 = moment2;
            if (right.finite)
              AdamWStep(layout, 0, expected, gradients, expected1, expected2, 3, 1e-2, right.value,
                        adamw, threads);

            Buffer<uint8_t> decays;
            for (const Parameter& parameter : layout)
              decays.insert(decays.end(), parameter.size / kDecayGrain, parameter.decays ? 1 : 0);
            const OperandLayout operands_at{33 * 64, 7 * 64};
            Buffer<A> operands(count + operands_at.gap, As<A>(0.0F));
            std::vector<double> copy(operands.size());
            for (size_t i = 0; right.finite && i < count; ++i)
              copy[i < operands_at.split ? i : i + operands_at.gap] = expected[i];
            Buffer<NormPiece> pieces;
            for (const Piece& piece : PiecesOf(layout)) pieces.push_back({piece.first, piece.size});
            const auto parts = static_cast<unsigned>(pieces.size());
            // Gathered from elsewhere, they lie in another order than the model's.
            Buffer<double> partial(parts, std::nan(""));
            Buffer<double> gathered(parts);
            Buffer<uint32_t> order(parts);
            Buffer<StepScale> scales(1);
            const StepScale& scale = scales[0];
            const Buffer<float> losses{loss};
            Sequence sequence(options);
            sequence.Run(SquaredNorm{gradients.data(), pieces.data(), partial.data(), parts});
            for (unsigned i = 0; i < parts; ++i) {
              order[i] = parts - 1 - i;
              gathered[order[i]] = partial[i];
            }
            sequence.Run(ClipScale{gathered.data(), order.data(), losses.data(), scales.data(),
                                   parts, 0.25, clip});
            // In two ranges, as buckets are.
            for (const auto& [first, end] : {std::pair(size_t{0}, size_t{2304}), {2304, count}}) {
              sequence.Run(
                  AdamW<A>{.parameters = parameters.data() + first,
                           .gradients = gradients.data() + first,
                           .moment1 = moment1.data() + first,
                           .moment2 = moment2.data() + first,
                           .operands = operands.data(),
                           .decays = decays.data(),
                           .scale = scales.data(),
                           .first = first,
                           .count = end - first,
                           .layout = operands_at,
                           .keep = static_cast<float>(1 - 1e-2 * adamw.weight_decay),
                           .beta1 = static_cast<float>(adamw.beta1),
                           .beta2 = static_cast<float>(adamw.beta2),
                           .rate = static_cast<float>(1e-2 / (1 - std::pow(adamw.beta1, 3))),
                           .root = static_cast<float>(1 / std::sqrt(1 - std::pow(adamw.beta2, 3))),
                           .epsilon = static_cast<float>(adamw.epsilon)});
            }
            sequence.Expect("finite", std::vector<double>{static_cast<double>(scale.finite)},
                            {right.finite ? 1.0 : 0.0}, 0);
            if (right.finite) {
              sequence.Expect("norm", std::vector<double>{scale.norm}, {right.norm}, 1e-12)
                  .Expect("scale", std::vector<float>{scale.value}, {right.value});
            }
            return sequence.Expect("parameters", parameters, Doubles(expected))
                .Expect("moment1", moment1, Doubles(expected1))
                .Expect("moment2", moment2, Doubles(expected2))
                .Expect("operands", operands, copy)
                .outcome();
          }};
}

// Whole hash blocks and a last one that is not, mixed as HashOf does it: to the bit.
Case ChecksumCase() {
  return {
      "checksum", [](const emulator::Options& options) {
        const auto x = Random(2 * kHashBlock + 1003, 1);
        Checksum checksum{x.data(), nullptr, x.size()};
        Buffer<uint64_t> hashes(checksum.parts());
        checksum.hashes = hashes.data();
        Sequence sequence(options);
        sequence.Run(checksum);
        uint64_t hash = 14695981039346656037ULL;
        for (const uint64_t block : hashes) hash = (hash ^ block) * 1099511628211ULL;
        Threads threads(1);
        const bool same = hash == HashOf(x, threads);
        return sequence.Expect("same", std::vector<float>{same ? 1.0F : 0.0F}, {1.0}, 0).outcome();
      }};
}

}  // namespace

std::vector<Case> StepCases() {
  return {ClassifierCase<Bf16>("classifier_bf16", 5001, 5120),
          ClassifierCase<float>("classifier_fp32", 67, 128),
          MeanLossCase(),
          StepCase<Bf16>("step_bf16", 1, 0, 8),
          StepCase<float>("step_fp32_clipped", 1, 1, 8),
          StepCase<float>("step_fp32_of_no_finite_gradient", INFINITY, 1, 8),
          StepCase<float>("step_fp32_of_no_finite_loss", 1, 0, NAN),
          ChecksumCase()};
}

}  // namespace lockstep::trainer::gpu
