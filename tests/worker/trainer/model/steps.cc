// Steps of AdamW from given parameters on given tokens, so that a peer can do the same:
//
//   lockstep-trainer-steps DIR LAYERS HEADS WIDTH VOCABULARY CONTEXT BATCH STEPS fp32|bf16
//
// Raw little-endian files in DIR. Read: parameters (float32, in the order of Parameters()), inputs
// and targets (int32 [STEPS, BATCH, CONTEXT]). Written: logits (float32, of the first inputs),
// gradients (float32, of the first step), losses (float32 [STEPS]), trained (float32, the
// parameters in the end). The learning rate warms up over 2 steps to 1e-3 and decays to step 10;
// gradients are clipped at norm 1.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "worker/trainer/model/adamw.h"
#include "worker/trainer/model/gpt.h"

namespace lockstep::trainer {
namespace {

template <typename T>
std::vector<T> Read(const std::string& path, size_t count) {
  std::vector<T> values(count);
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(values.data()),
                 static_cast<std::streamsize>(count * sizeof(T)))) {
    std::fprintf(stderr, "%s: shorter than %zu elements\n", path.c_str(), count);
    std::exit(1);
  }
  return values;
}

void Write(const std::string& path, const std::vector<float>& values) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(float)));
  if (!file.flush()) {
    std::fprintf(stderr, "%s: not written\n", path.c_str());
    std::exit(1);
  }
}

void Run(const std::string& folder, const Shape& shape, int batch, int steps, Precision precision) {
  const size_t rows = static_cast<size_t>(batch) * static_cast<size_t>(shape.context);
  const size_t tokens = rows * static_cast<size_t>(steps);
  std::vector<float> parameters = Read<float>(folder + "/parameters", ParameterCount(shape));
  const auto inputs = Read<int32_t>(folder + "/inputs", tokens);
  const auto targets = Read<int32_t>(folder + "/targets", tokens);

  Threads threads(2);
  Gpt<float> model(shape, batch, precision, threads);
  std::vector<float> logits(rows * static_cast<size_t>(shape.vocabulary));
  model.Logits(parameters, std::span(inputs).first(rows), logits);
  Write(folder + "/logits", logits);

  const std::vector<Parameter> layout = Parameters(shape);
  std::vector<float> gradients(parameters.size());
  std::vector<float> moment1(parameters.size());
  std::vector<float> moment2(parameters.size());
  std::vector<float> losses;
  for (int step = 1; step <= steps; ++step) {
    const size_t at = static_cast<size_t>(step - 1) * rows;
    losses.push_back(model.Forward(parameters, std::span(inputs).subspan(at, rows),
                                   std::span(targets).subspan(at, rows)));
    model.Backward(parameters, gradients, [](size_t) {});
    if (step == 1) Write(folder + "/gradients", gradients);
    const double norm = std::sqrt(SumOfSquares(gradients, 1, threads));
    AdamWStep(layout, 0, parameters, gradients, moment1, moment2, step,
              LearningRate(step, 1e-3, 2, 10), norm > 1 ? 1 / norm : 1, {}, threads);
  }
  Write(folder + "/losses", losses);
  Write(folder + "/trained", parameters);
}

}  // namespace
}  // namespace lockstep::trainer

int main(int argc, char** argv) {
  using namespace lockstep::trainer;  // NOLINT(google-build-using-namespace)
  if (argc != 10) {
    std::fprintf(stderr, "usage: see the beginning of steps.cc\n");
    return 2;
  }
  const auto number = [&](int i) { return std::atoi(argv[i]); };
  const Shape shape{number(2), number(3), number(4), number(5), number(6)};
  const auto precision = std::string(argv[9]) == "bf16" ? Precision::kBf16 : Precision::kFp32;
  Run(argv[1], shape, number(7), number(8), precision);
}
