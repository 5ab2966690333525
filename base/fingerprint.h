// Fingerprint: 64 bits by which two lists of texts are seen to be the same (FNV-1a). Not against
// somebody who wants two that are alike.
//
//   Fingerprint print;
//   for (const Pod& pod : pods) print.Add(pod.uid).Add(pod.address);
#ifndef LOCKSTEP_BASE_FINGERPRINT_H_
#define LOCKSTEP_BASE_FINGERPRINT_H_

#include <cstdint>
#include <string_view>

namespace lockstep {

class Fingerprint {
 public:
  // ("ab", "c") and ("a", "bc") differ.
  constexpr Fingerprint& Add(std::string_view text) {
    for (const char c : text) AddByte(static_cast<unsigned char>(c));
    AddByte(0xFF);  // which no UTF-8 has
    return *this;
  }

  constexpr uint64_t value() const { return value_; }

 private:
  constexpr void AddByte(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001B3; }

  uint64_t value_ = 0xCBF29CE484222325;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_FINGERPRINT_H_
