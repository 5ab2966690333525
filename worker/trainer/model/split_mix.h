// SplitMix64 (Steele, Lea, Flood, 2014): the same numbers on every machine for one seed.
#ifndef LOCKSTEP_WORKER_TRAINER_MODEL_SPLIT_MIX_H_
#define LOCKSTEP_WORKER_TRAINER_MODEL_SPLIT_MIX_H_

#include <cstdint>

namespace lockstep::trainer {

class SplitMix {
 public:
  explicit SplitMix(uint64_t seed) : state_(seed) {}

  uint64_t Bits() {
    state_ += 0x9e3779b97f4a7c15U;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  // Of [0, 1).
  double Unit() { return static_cast<double>(Bits() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_MODEL_SPLIT_MIX_H_
