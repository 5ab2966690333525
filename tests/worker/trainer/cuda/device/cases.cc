#include "tests/worker/trainer/cuda/device/cases.h"

#include <algorithm>
#include <cstring>

namespace lockstep::trainer::gpu {

std::vector<Case> AllCases() {
  std::vector<Case> all;
  for (const auto& cases : {AttentionCases(), ElementCases(), NormCases(), StepCases()})
    all.insert(all.end(), cases.begin(), cases.end());
  return all;
}

double ErrorOf(const Output& output) {
  double difference = 0;
  double largest = 0;
  if (output.values.size() != output.expected.size()) return INFINITY;
  for (size_t i = 0; i < output.values.size(); ++i) {
    const double here = std::abs(output.values[i] - output.expected[i]);
    if (!(here <= difference)) difference = std::isnan(here) ? INFINITY : here;
    largest = std::max(largest, std::abs(output.expected[i]));
  }
  return largest == 0 ? difference : difference / largest;
}

std::string Judge(const Outcome& outcome, const Outcome& first) {
  if (!outcome.wrong.empty()) return outcome.wrong;
  for (size_t i = 0; i < outcome.outputs.size(); ++i) {
    const Output& output = outcome.outputs[i];
    const double error = ErrorOf(output);
    if (!(error <= output.tolerance))
      return output.name + " is off by " + std::to_string(error * 1e6) + "e-6";
    const std::vector<double>& right = first.outputs[i].values;
    if (std::memcmp(output.values.data(), right.data(), right.size() * sizeof(double)) != 0)
      return output.name + " has other bits";
  }
  return {};
}

}  // namespace lockstep::trainer::gpu
