// Makes foreign text (a program's stderr, an API server's message, a user's job file) safe to keep
// and to show on a terminal.
//
// Bytes that are not UTF-8, and control characters other than tab and newline, become U+FFFD:
// Lockstep's own readers refuse documents with them, and a terminal would obey them. Cuts to a
// limit fall between two characters.
#ifndef LOCKSTEP_CORE_TEXT_LIMITED_TEXT_H_
#define LOCKSTEP_CORE_TEXT_LIMITED_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::core {

// At most `limit` bytes (3 or more) of the beginning. "..." marks that something was cut off.
std::string FirstBytes(std::string_view text, size_t limit);
// At most `limit` bytes of the end.
std::string LastBytes(std::string_view text, size_t limit);

// All of it.
std::string Printable(std::string_view text);
// All of it, with blanks for newlines and tabs.
std::string OneLine(std::string_view text);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_TEXT_LIMITED_TEXT_H_
