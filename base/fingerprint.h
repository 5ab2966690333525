// Fingerprint: 64 bits that are the same for two lists of the same texts (FNV-1a). It does not
// withstand an attacker who looks for two lists with one fingerprint.
//
//   Fingerprint print;
//   for (const auto& pod : pods) print.Add(pod.uid).Add(pod.address);
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
