// Numbers for tests, the same in every run.
#ifndef LOCKSTEP_TESTS_WORKER_TRAINER_MODEL_RANDOM_H_
#define LOCKSTEP_TESTS_WORKER_TRAINER_MODEL_RANDOM_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace lockstep::trainer {

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}

  // `count` numbers of [-size, size).
  template <typename T>
  std::vector<T> Numbers(size_t count, double size) {
    std::vector<T> numbers(count);
    for (T& number : numbers) number = static_cast<T>((Unit() * 2 - 1) * size);
    return numbers;
  }
  // Tokens of [0, vocabulary).
  std::vector<int32_t> Tokens(size_t count, int vocabulary) {
    std::vector<int32_t> tokens(count);
    for (int32_t& token : tokens) token = static_cast<int32_t>(Unit() * vocabulary);
    return tokens;
  }

 private:
  double Unit() { return static_cast<double>(engine_()) * 0x1p-32; }

  std::mt19937 engine_;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_TESTS_WORKER_TRAINER_MODEL_RANDOM_H_
