#include "base/result.h"

#include <system_error>

namespace lockstep {

const char* ToString(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalid:
      return "Invalid";
    case ErrorKind::kNotFound:
      return "NotFound";
    case ErrorKind::kConflict:
      return "Conflict";
    case ErrorKind::kDenied:
      return "Denied";
    case ErrorKind::kUnavailable:
      return "Unavailable";
    case ErrorKind::kTimeout:
      return "Timeout";
    case ErrorKind::kTooLarge:
      return "TooLarge";
    case ErrorKind::kInternal:
      return "Internal";
    case ErrorKind::kBroken:
      return "Broken";
  }
  return "Unknown";
}

Error ErrnoError(const std::string& what, int errno_value) {
  return Error::Internal(what + ": " + std::generic_category().message(errno_value));
}

}  // namespace lockstep
