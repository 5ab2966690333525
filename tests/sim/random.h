// Random: splitmix64. The standard library's distributions differ between implementations; a seed
// must mean the same schedule everywhere.
#ifndef LOCKSTEP_TESTS_SIM_RANDOM_H_
#define LOCKSTEP_TESTS_SIM_RANDOM_H_

#include <cstdint>

#include "base/time.h"

namespace lockstep::sim {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15U;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  // In [0, n); n > 0.
  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(Next() % n); }
  bool Chance(uint32_t percent) { return Below(100) < percent; }
  // In [low, high].
  Duration Between(Duration low, Duration high) {
    if (high <= low) return low;
    auto width = static_cast<uint64_t>((high - low).count());
    return low + Duration(static_cast<int64_t>(Next() % (width + 1)));
  }

 private:
  uint64_t state_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_RANDOM_H_
