// A mistake of people who installed Lockstep in a virtual environment by pip: the job's `python` is
// another one, which lacks what the environment holds.
#ifndef LOCKSTEP_CLI_RUN_OTHER_PYTHON_H_
#define LOCKSTEP_CLI_RUN_OTHER_PYTHON_H_

#include <string>
#include <vector>

namespace lockstep::cli {

// The hint if `program`, this program's file, is in a virtual environment's bin/ and `command`
// begins with a bare python, python3 or the like that `path` (as PATH) finds in another folder. In
// all other cases "". Environments that pipx and uv make for one tool are not their users' own and
// get none.
std::string OtherPythonHint(const std::string& program, const std::vector<std::string>& command,
                            const std::string& path);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_OTHER_PYTHON_H_
