// Kernels with inputs, and what comes out of them in double precision.
#ifndef LOCKSTEP_TESTS_WORKER_TRAINER_CUDA_KERNELS_CASES_H_
#define LOCKSTEP_TESTS_WORKER_TRAINER_CUDA_KERNELS_CASES_H_

#include <cmath>
#include <cstdint>
#include <functional>
#include <ostream>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/emulator/emulator.h"
#include "worker/trainer/cuda/gpt_kernels.h"
#include "worker/trainer/model/bf16.h"

namespace lockstep::trainer::gpu {

constexpr double kFp32 = 1e-6;
constexpr double kBf16 = 5e-3;
template <typename A>
constexpr double kTolerance = std::is_same_v<A, Bf16> ? kBf16 : kFp32;

// What a kernel wrote, what it should have, and by how much of the largest that may differ.
struct Output {
  std::string name;
  std::vector<double> values;
  std::vector<double> expected;
  double tolerance;
};

struct Outcome {
  std::string wrong;  // the emulator's
  std::vector<Output> outputs;
};

struct Case {
  std::string name;
  std::function<Outcome(const emulator::Options&)> run;

  friend void PrintTo(const Case& a_case, std::ostream* out) { *out << a_case.name; }
};

std::vector<Case> AttentionCases();
std::vector<Case> ElementCases();
std::vector<Case> NormCases();
std::vector<Case> StepCases();

// Inputs: the same for the same seed.
template <typename A = float>
std::vector<A> Random(size_t count, unsigned seed, float scale = 1, float mean = 0) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, scale);
  std::vector<A> values;
  for (size_t i = 0; i < count; ++i) values.push_back(As<A>(normal(random)));
  return values;
}

// Outputs begin as NaN.
template <typename A = float>
std::vector<A> Unset(size_t count) {
  return std::vector<A>(count, As<A>(std::nanf("")));
}

inline double Double(float value) { return value; }
inline double Double(double value) { return value; }
inline double Double(Bf16 value) { return ToFloat(value); }
template <typename A>
std::vector<double> Doubles(const std::vector<A>& values) {
  std::vector<double> doubles;
  for (const A& value : values) doubles.push_back(Double(value));
  return doubles;
}

// Runs several kernels, one after the other, until the first that goes wrong.
class Sequence {
 public:
  explicit Sequence(const emulator::Options& options) : options_(options) {}

  template <typename Arguments>
  Sequence& Run(const Arguments& arguments) {
    if (outcome_.wrong.empty()) outcome_.wrong = emulator::Run(arguments, options_);
    return *this;
  }
  template <typename A>
  Sequence& Expect(std::string name, const std::vector<A>& values, std::vector<double> expected,
                   double tolerance = kTolerance<A>) {
    outcome_.outputs.push_back({std::move(name), Doubles(values), std::move(expected), tolerance});
    return *this;
  }
  Outcome outcome() { return std::move(outcome_); }

 private:
  const emulator::Options& options_;
  Outcome outcome_;
};

}  // namespace lockstep::trainer::gpu

#endif  // LOCKSTEP_TESTS_WORKER_TRAINER_CUDA_KERNELS_CASES_H_
