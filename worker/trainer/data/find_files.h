// The files that a list of globs means.
#ifndef LOCKSTEP_WORKER_TRAINER_DATA_FIND_FILES_H_
#define LOCKSTEP_WORKER_TRAINER_DATA_FIND_FILES_H_

#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace lockstep::trainer {

// Sorted by their bytes, whatever the locale, and each file once, under its first name, where
// several globs or symbolic links lead to it. kNotFound: a glob without a match; kInvalid: no
// globs.
Result<std::vector<std::string>> FindFiles(std::span<const std::string> globs);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_DATA_FIND_FILES_H_
