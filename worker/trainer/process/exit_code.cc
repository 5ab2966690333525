#include "worker/trainer/process/exit_code.h"

#include <cstdio>

namespace lockstep::trainer {

int ExitCodeOf(const Error& error) {
  switch (error.kind) {
    case ErrorKind::kUnavailable:
    case ErrorKind::kTimeout:
      return core::kExitPeerLost;
    case ErrorKind::kInvalid:
    case ErrorKind::kNotFound:
    case ErrorKind::kDenied:
    case ErrorKind::kConflict:
    case ErrorKind::kTooLarge:
      return core::kExitUsage;
    case ErrorKind::kBroken:
      return core::kExitBroken;
    case ErrorKind::kInternal:
      break;
  }
  return core::kExitTrouble;
}

void Complain(const Error& error) {
  std::fprintf(stderr, "lockstep-trainer: %s\n", error.message.c_str());
}

int Fail(const Error& error) {
  Complain(error);
  return ExitCodeOf(error);
}

void Warn(const std::string& message) {
  std::fprintf(stderr, "lockstep-trainer: warning: %s\n", message.c_str());
}

}  // namespace lockstep::trainer
