// Characters and whole numbers in ASCII, whatever the locale says.
#ifndef LOCKSTEP_BASE_ASCII_H_
#define LOCKSTEP_BASE_ASCII_H_

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace lockstep {

constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The number that all of `text` is, in decimal; nullopt if it is none, or does not fit.
template <std::integral Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_ASCII_H_
