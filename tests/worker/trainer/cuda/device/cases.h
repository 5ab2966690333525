// Kernels with inputs, and what comes out of them in double precision. They run in the emulator, or
// on a GPU (tests/system/gpu), which sees the same memory.
#ifndef LOCKSTEP_TESTS_WORKER_TRAINER_CUDA_DEVICE_CASES_H_
#define LOCKSTEP_TESTS_WORKER_TRAINER_CUDA_DEVICE_CASES_H_

#include <cmath>
#include <cstdint>
#include <functional>
#include <ostream>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/fakes/emulator/emulator.h"
#include "worker/trainer/cuda/device/gpt_kernels.h"
#include "worker/trainer/cuda/kernels.h"
#include "worker/trainer/model/bf16.h"

namespace lockstep::trainer::gpu {

// The GPU that cases run on; the emulator where there are no kernels. Set before cases are made.
struct Gpu {
  Kernels* kernels = nullptr;
  void* (*allocate)(size_t bytes) = nullptr;  // memory of the host's and the GPU's
  void (*free)(void* memory) = nullptr;
};
inline Gpu gpu;

template <typename T>
struct SharedAllocator {
  using value_type = T;
  SharedAllocator() = default;
  template <typename U>
  explicit SharedAllocator(const SharedAllocator<U>& /*other*/) {}

  // NOLINTNEXTLINE(readability-identifier-naming): as the standard has it
  T* allocate(size_t count) {
    const size_t bytes = count * sizeof(T);
    return static_cast<T*>(gpu.kernels == nullptr ? ::operator new(bytes) : gpu.allocate(bytes));
  }
  // NOLINTNEXTLINE(readability-identifier-naming)
  void deallocate(T* memory, size_t /*count*/) {
    gpu.kernels == nullptr ? ::operator delete(memory) : gpu.free(memory);
  }
  friend bool operator==(const SharedAllocator&, const SharedAllocator&) = default;
};
// What kernels read and write.
template <typename T>
using Buffer = std::vector<T, SharedAllocator<T>>;

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

std::vector<Case> AllCases();
// What is wrong with an outcome, `first` being another of the same case; or nothing.
std::string Judge(const Outcome& outcome, const Outcome& first);
// The largest difference from what is expected, relative to the largest number expected.
double ErrorOf(const Output& output);

std::vector<Case> AttentionCases();
std::vector<Case> ElementCases();
std::vector<Case> NormCases();
std::vector<Case> StepCases();

// Inputs: the same for the same seed.
template <typename A = float>
Buffer<A> Random(size_t count, unsigned seed, float scale = 1, float mean = 0) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, scale);
  Buffer<A> values;
  for (size_t i = 0; i < count; ++i) values.push_back(As<A>(normal(random)));
  return values;
}

// Outputs begin as NaN.
template <typename A = float>
Buffer<A> Unset(size_t count) {
  return Buffer<A>(count, As<A>(std::nanf("")));
}

inline double Double(float value) { return value; }
inline double Double(double value) { return value; }
inline double Double(Bf16 value) { return ToFloat(value); }
template <typename Values>
std::vector<double> Doubles(const Values& values) {
  std::vector<double> doubles;
  for (const auto& value : values) doubles.push_back(Double(value));
  return doubles;
}

// Runs several kernels, one after the other, until the first that goes wrong.
class Sequence {
 public:
  explicit Sequence(const emulator::Options& options) : options_(options) {}

  template <typename Arguments>
  Sequence& Run(const Arguments& arguments) {
    if (!outcome_.wrong.empty()) return *this;
    if (gpu.kernels == nullptr) {
      outcome_.wrong = emulator::Run(arguments, options_);
      return *this;
    }
    Status done = gpu.kernels->Launch(arguments);
    if (done.ok()) done = gpu.kernels->Synchronize();
    if (!done.ok()) outcome_.wrong = done.error().message;
    return *this;
  }
  template <typename Values>
  Sequence& Expect(std::string name, const Values& values, std::vector<double> expected,
                   double tolerance = kTolerance<typename Values::value_type>) {
    outcome_.outputs.push_back({std::move(name), Doubles(values), std::move(expected), tolerance});
    return *this;
  }
  Outcome outcome() { return std::move(outcome_); }

 private:
  const emulator::Options& options_;
  Outcome outcome_;
};

}  // namespace lockstep::trainer::gpu

#endif  // LOCKSTEP_TESTS_WORKER_TRAINER_CUDA_DEVICE_CASES_H_
