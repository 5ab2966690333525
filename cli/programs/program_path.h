// Where the other programs of Lockstep are.
#ifndef LOCKSTEP_CLI_PROGRAMS_PROGRAM_PATH_H_
#define LOCKSTEP_CLI_PROGRAMS_PROGRAM_PATH_H_

#include <string>

#include "base/result.h"

namespace lockstep::cli {

bool IsExecutable(const std::string& path);

// The absolute path of `name` beside this program, else in PATH; never this program itself under
// another name. NotFound says where it was looked for.
Result<std::string> FindProgram(const std::string& name);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_PROGRAMS_PROGRAM_PATH_H_
