// What a process says through a pipe, within limits.
#ifndef LOCKSTEP_BASE_READ_UNTIL_H_
#define LOCKSTEP_BASE_READ_UNTIL_H_

#include <cstddef>
#include <string>

#include "base/time.h"

namespace lockstep {

// What comes from `fd` until its end, `until` or `limit` bytes. `ended`: it was the end. It waits:
// not for an event loop's thread.
std::string ReadUntil(int fd, Time until, size_t limit, bool* ended);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_READ_UNTIL_H_
