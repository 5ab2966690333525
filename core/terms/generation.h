// Generation: the number of a generation.
#ifndef LOCKSTEP_CORE_TERMS_GENERATION_H_
#define LOCKSTEP_CORE_TERMS_GENERATION_H_

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/fields.h"
#include "base/result.h"

namespace lockstep::core {

// (attempt of the machine 0 that announces it, n). A coordinator's attempt is fixed at its birth,
// so no two generations share a number. {0, 0} is no generation.
struct Generation {
  uint32_t attempt = 0;
  uint32_t n = 0;

  bool exists() const { return attempt != 0; }
  std::string ToString() const;  // "2-5"
  // "2-5"; "" is none. Errors: Invalid.
  static Result<Generation> Parse(std::string_view text);
  friend auto operator<=>(const Generation&, const Generation&) = default;
};

template <>
struct AsText<Generation> {
  static std::string Format(const Generation& generation) { return generation.ToString(); }
  static Result<Generation> Parse(std::string_view text) { return Generation::Parse(text); }
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_TERMS_GENERATION_H_
