// 16-bit floating point numbers, as bits, widened to float. Exact.
#ifndef LOCKSTEP_WORKER_TRAINER_CHECKPOINT_FLOAT16_H_
#define LOCKSTEP_WORKER_TRAINER_CHECKPOINT_FLOAT16_H_

#include <bit>
#include <cstdint>

namespace lockstep::trainer {

// bfloat16: the upper half of a float.
inline float WidenBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// IEEE 754 binary16: 1 bit sign, 5 exponent (bias 15), 10 fraction.
inline float WidenF16(uint16_t bits) {
  uint32_t sign = (uint32_t{bits} & 0x8000) << 16;
  uint32_t magnitude = (uint32_t{bits} & 0x7FFF) << 13;
  if ((bits & 0x7C00) == 0x7C00) return std::bit_cast<float>(sign | 0x7F800000 | magnitude);
  // The exponent is 112 too small, which a product by 2^112 makes up for, subnormals included.
  float value = std::bit_cast<float>(magnitude) * 0x1p112F;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CHECKPOINT_FLOAT16_H_
