// Texts and whole numbers in ASCII, whatever the locale says.
#ifndef LOCKSTEP_BASE_TEXT_ASCII_H_
#define LOCKSTEP_BASE_TEXT_ASCII_H_

#include <charconv>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace lockstep {

constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }

inline std::string ToLower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// `text` without `blanks` at both ends.
constexpr std::string_view Trim(std::string_view text, std::string_view blanks = " \t\r\n") {
  const size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// The number that all of `text` is, in decimal; nullopt if it is none, or does not fit.
template <std::integral Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_TEXT_ASCII_H_
