// A file of text that fits memory many times.
#ifndef LOCKSTEP_WORKER_TRAINER_CHECKPOINT_SMALL_FILE_H_
#define LOCKSTEP_WORKER_TRAINER_CHECKPOINT_SMALL_FILE_H_

#include <string>

#include "base/result.h"

namespace lockstep::trainer {

// kTooLarge: more than 1 MiB; else InputFile's errors.
Result<std::string> ReadSmallFile(const std::string& path);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CHECKPOINT_SMALL_FILE_H_
