// One training step's time on one machine, without data, collectives and reports, to hold against
// bench/train_torch.py:
//
//   trainer_model_speed SIZE CONTEXT BATCH STEPS THREADS fp32|bf16
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/worker/trainer/model/random.h"
#include "worker/trainer/model/adamw.h"
#include "worker/trainer/model/gpt.h"

namespace lockstep::trainer {
namespace {

struct Arguments {
  Shape shape;
  int batch;
  int steps;
  int threads;
  Precision precision;
};

// Of forward, backward and optimizer.
struct Phases {
  double forward;
  double backward;
  double optimizer;
};

class Trainer {
 public:
  explicit Trainer(const Arguments& a)
      : threads_(a.threads),
        model_(a.shape, a.batch, a.precision, threads_),
        layout_(Parameters(a.shape)),
        parameters_(ParameterCount(a.shape)),
        gradients_(parameters_.size()),
        moment1_(parameters_.size()),
        moment2_(parameters_.size()) {
    const auto rows = static_cast<size_t>(a.batch) * static_cast<size_t>(a.shape.context);
    inputs_ = random_.Tokens(rows, a.shape.vocabulary);
    targets_ = random_.Tokens(rows, a.shape.vocabulary);
    InitialiseParameters(a.shape, 0, parameters_);
  }

  Phases Step() {
    const double begin = Now();
    loss_ = model_.Forward(parameters_, inputs_, targets_);
    const double forward = Now();
    model_.Backward(parameters_, gradients_, [](size_t) {});
    const double backward = Now();
    const double norm = std::sqrt(SumOfSquares(gradients_, 1, threads_));
    AdamWStep(layout_, 0, parameters_, gradients_, moment1_, moment2_, ++t_, 3e-4,
              norm > 1 ? 1 / norm : 1, {}, threads_);
    return {forward - begin, backward - forward, Now() - backward};
  }
  float loss() const { return loss_; }

 private:
  static double Now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  Threads threads_;
  Gpt<float> model_;
  std::vector<Parameter> layout_;
  std::vector<float> parameters_;
  std::vector<float> gradients_;
  std::vector<float> moment1_;
  std::vector<float> moment2_;
  Random random_{1};
  std::vector<int32_t> inputs_;
  std::vector<int32_t> targets_;
  int64_t t_ = 0;
  float loss_ = 0;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Run(const Arguments& a) {
  constexpr int kWarmup = 3;
  Trainer trainer(a);
  std::vector<double> steps;
  Phases sum{};
  for (int i = 0; i < kWarmup + a.steps; ++i) {
    const Phases p = trainer.Step();
    if (i < kWarmup) continue;
    steps.push_back(p.forward + p.backward + p.optimizer);
    sum = {sum.forward + p.forward, sum.backward + p.backward, sum.optimizer + p.optimizer};
  }
  const double median = Median(steps);
  std::printf(
      "{\"tokens_per_second\": %.1f, \"step_seconds\": %.6f, \"fastest_seconds\": %.6f, "
      "\"forward\": %.6f, \"backward\": %.6f,"
      " \"optimizer\": %.6f, \"loss\": %.6f}\n",
      a.batch * a.shape.context / median, median, *std::min_element(steps.begin(), steps.end()),
      sum.forward / a.steps, sum.backward / a.steps, sum.optimizer / a.steps,
      static_cast<double>(trainer.loss()));
}

}  // namespace
}  // namespace lockstep::trainer

int main(int argc, char** argv) {
  using namespace lockstep::trainer;  // NOLINT(google-build-using-namespace)
  if (argc != 7) {
    std::fprintf(stderr, "usage: %s SIZE CONTEXT BATCH STEPS THREADS fp32|bf16\n", argv[0]);
    return 2;
  }
  const auto shape = PresetShape(argv[1], std::atoi(argv[2]));
  const auto precision = std::string(argv[6]) == "bf16" ? Precision::kBf16 : Precision::kFp32;
  const auto ready = CheckPrecision(precision);
  if (!shape.ok() || !ready.ok()) {
    std::fprintf(stderr, "%s\n", (shape.ok() ? ready.error() : shape.error()).message.c_str());
    return 2;
  }
  Run({*shape, std::atoi(argv[3]), std::atoi(argv[4]), std::atoi(argv[5]), precision});
}
