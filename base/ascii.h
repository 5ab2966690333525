// Characters of ASCII, whatever the locale says.
#ifndef LOCKSTEP_BASE_ASCII_H_
#define LOCKSTEP_BASE_ASCII_H_

namespace lockstep {

constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_ASCII_H_
