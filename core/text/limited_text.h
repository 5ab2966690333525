// Text of strangers (a program's stderr, an API server's message) cut to fit where it goes.
//
// Cuts fall between two characters. What is no UTF-8, and control characters but tab and newline,
// become U+FFFD: our own readers refuse documents with them.
#ifndef LOCKSTEP_CORE_TEXT_LIMITED_TEXT_H_
#define LOCKSTEP_CORE_TEXT_LIMITED_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::core {

// At most `limit` bytes, 3 or more, of the beginning; "..." ends it where something was cut off.
std::string FirstBytes(std::string_view text, size_t limit);
// At most `limit` bytes of the end.
std::string LastBytes(std::string_view text, size_t limit);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_TEXT_LIMITED_TEXT_H_
