// Commands that start other processes, recognised by how they are called.
#ifndef LOCKSTEP_CORE_PLAN_LAUNCHER_H_
#define LOCKSTEP_CORE_PLAN_LAUNCHER_H_

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::core {

struct LauncherCall {
  std::string name;                // "torchrun", "accelerate launch", "deepspeed", "mpirun", ...
  std::vector<std::string> words;  // the launcher and what follows it
};

// The launchers that a command starts, looking through `python -m`, Python scripts that are a
// launcher's, `env`, `timeout` and their like, and a shell's -c; several where a shell's script
// starts several.
std::vector<LauncherCall> LaunchersOf(const std::vector<std::string>& command);

// The first of them; empty when the command starts none.
std::string LauncherOf(const std::vector<std::string>& command);

// mpirun, and the other names of it.
bool IsMpirun(std::string_view launcher);

// The first launcher that can't join the machines of a job; empty when there is none. Only torchrun
// can, since it reads PET_*; any other would run a separate training on each machine. mpirun can
// where machine 0 alone runs it: `from_machine0` (core/model/launch.h).
std::string UnsupportedLauncherOf(const std::vector<std::string>& command,
                                  bool from_machine0 = false);

// The replacement to write for an unsupported launcher.
std::string InPlaceOf(const std::string& launcher);

// Programs and Python modules that are launchers, by their own names.
std::vector<std::string_view> LauncherNames();

// The part of a path after its last slash.
std::string_view BaseName(std::string_view path);

// python, python3, python3.11, with or without a path before it.
bool IsPython(std::string_view program);

// A command's words as a shell would split them: quotes and backslashes are honoured; ; | & and
// line ends are separate words. Nothing is expanded.
std::vector<std::string> SplitShellWords(std::string_view text);

// A command line as a shell takes it.
std::string ShellQuote(const std::vector<std::string>& arguments);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_PLAN_LAUNCHER_H_
