// Reading a file that should be small: configurations, tokens, certificates.
#ifndef LOCKSTEP_OPERATOR_KUBE_SMALL_FILE_H_
#define LOCKSTEP_OPERATOR_KUBE_SMALL_FILE_H_

#include <cstddef>
#include <string>

#include "base/result.h"

namespace lockstep::kube {

// All of it. Errors, which name the file: NotFound, Invalid (it can't be read), TooLarge.
Result<std::string> ReadSmallFile(const std::string& path, size_t limit);

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_SMALL_FILE_H_
