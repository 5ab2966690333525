// bfloat16: the upper half of a float. Only stored and converted; products sum it in fp32.
#ifndef LOCKSTEP_WORKER_TRAINER_MODEL_BF16_H_
#define LOCKSTEP_WORKER_TRAINER_MODEL_BF16_H_

#include <bit>
#include <cstdint>
#include <type_traits>

namespace lockstep::trainer {

struct Bf16 {
  uint16_t bits;
};

// To the nearest, ties to even; NaN stays NaN.
inline Bf16 ToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const uint32_t nan = (bits >> 16) | 0x40U;
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return {static_cast<uint16_t>(is_nan ? nan : rounded)};
}

inline float ToFloat(Bf16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

// To an operand of a matrix product of type A.
template <typename A, typename T>
inline A As(T value) {
  if constexpr (std::is_same_v<A, Bf16>) {
    return ToBf16(value);
  } else {
    return value;
  }
}

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_MODEL_BF16_H_
