#include "worker/trainer/data/shuffle.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace lockstep::trainer {

namespace {

// The finaliser of SplitMix64 (Steele, Lea and Flood 2014): each bit of the input turns each bit of
// the output with a probability of one half.
uint64_t Mix(uint64_t value) {
  value += 0x9E3779B97F4A7C15;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

}  // namespace

Shuffle::Shuffle(uint64_t seed, uint64_t epoch, uint64_t size)
    : size_(size), half_bits_(std::max(1, static_cast<int>(std::bit_width(size - 1) + 1) / 2)) {
  assert(size >= 1);
  uint64_t key = Mix(Mix(seed) ^ epoch);
  for (uint64_t& round_key : keys_) round_key = key = Mix(key);
}

uint64_t Shuffle::operator()(uint64_t i) const {
  assert(i < size_);
  do {
    i = Permute(i);
  } while (i >= size_);
  return i;
}

uint64_t Shuffle::Permute(uint64_t value) const {
  uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (uint64_t key : keys_) {
    uint64_t next = left ^ (Mix(right ^ key) & mask);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

}  // namespace lockstep::trainer
