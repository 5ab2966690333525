// Names of variables, as shells write them.
#ifndef LOCKSTEP_BASE_TEXT_SHELL_NAME_H_
#define LOCKSTEP_BASE_TEXT_SHELL_NAME_H_

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/text/ascii.h"

namespace lockstep {

constexpr bool IsNameCharacter(char c) {
  return IsDigit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// The length of NAME in NAME=VALUE; 0 if `word` assigns nothing.
constexpr size_t AssignedName(std::string_view word) {
  constexpr size_t kLongest = 256;
  size_t length = 0;
  while (length < std::min(word.size(), kLongest) && IsNameCharacter(word[length])) ++length;
  const bool is_name = length > 0 && !IsDigit(word[0]);
  return is_name && length < word.size() && word[length] == '=' ? length : 0;
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_TEXT_SHELL_NAME_H_
