// Quantity: an amount of a resource as Kubernetes writes it: 500m, 1e3, 1.5, 110Gi.
//
// Held in thousandths, up to 8Pi: what is larger is refused, what is finer is rounded away from
// zero, as Kubernetes does with the resources of a pod.
#ifndef LOCKSTEP_BASE_TEXT_QUANTITY_H_
#define LOCKSTEP_BASE_TEXT_QUANTITY_H_

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep {

class Quantity {
 public:
  // How it was written, which is how ToString writes it back.
  enum class Format : uint8_t { kDecimal, kBinary };

  constexpr Quantity() = default;

  // [+-]digits[.digits] and one of: nothing, n u m k M G T P E, Ki Mi Gi Ti Pi Ei, e<int> or
  // E<int> with an <int> of at most two digits. Errors: Invalid (not of that form), TooLarge.
  static Result<Quantity> Parse(std::string_view text);
  static constexpr Quantity FromMilli(int64_t milli, Format format = Format::kDecimal) {
    return Quantity(milli, format);
  }
  static constexpr Quantity FromUnits(int64_t units, Format format = Format::kDecimal) {
    return Quantity(units * 1000, format);
  }

  int64_t milli() const { return milli_; }
  bool IsWhole() const { return milli_ % 1000 == 0; }
  Format format() const { return format_; }

  // The shortest exact form: the largest suffix that leaves a whole number.
  std::string ToString() const;

  // Errors: TooLarge.
  Result<Quantity> Times(int64_t factor) const;

  friend constexpr bool operator==(const Quantity& a, const Quantity& b) {
    return a.milli_ == b.milli_;
  }
  friend constexpr auto operator<=>(const Quantity& a, const Quantity& b) {
    return a.milli_ <=> b.milli_;
  }

 private:
  constexpr Quantity(int64_t milli, Format format) : milli_(milli), format_(format) {}

  int64_t milli_ = 0;
  Format format_ = Format::kDecimal;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_TEXT_QUANTITY_H_
