// Appending to a file of records on a disk that may be full.
#ifndef LOCKSTEP_BASE_EVENTS_APPEND_H_
#define LOCKSTEP_BASE_EVENTS_APPEND_H_

#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep::events {

// Writes all of `bytes` at the end of the file, or none of them: what found room before an error is
// cut off again, because a reader stops at half a record. `fd` is open with O_APPEND, and nobody
// else writes to the file. `path` is for the error, which is Unavailable.
Status AppendWhole(int fd, std::string_view bytes, const std::string& path);

}  // namespace lockstep::events

#endif  // LOCKSTEP_BASE_EVENTS_APPEND_H_
