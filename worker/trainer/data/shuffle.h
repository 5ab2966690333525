// A permutation of [0, size) that needs no memory: the order of an epoch of any size.
//
// A Feistel network permutes the numbers of 2 h bits, of which there are at least `size` and fewer
// than 4 `size` + 4; a result beyond `size` is permuted again until it falls below it (cycle
// walking), which keeps the mapping one to one. Which number comes where is part of the format of
// a checkpoint: its cursor counts in this order.
#ifndef LOCKSTEP_WORKER_TRAINER_DATA_SHUFFLE_H_
#define LOCKSTEP_WORKER_TRAINER_DATA_SHUFFLE_H_

#include <array>
#include <cstdint>

namespace lockstep::trainer {

class Shuffle {
 public:
  // size >= 1.
  Shuffle(uint64_t seed, uint64_t epoch, uint64_t size);

  // The index at place `i` of the epoch; i < size.
  uint64_t operator()(uint64_t i) const;

 private:
  uint64_t Permute(uint64_t value) const;

  uint64_t size_;
  int half_bits_;
  std::array<uint64_t, 6> keys_{};  // one a round
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_DATA_SHUFFLE_H_
