#include "cli/convert/command_role.h"

#include "cli/convert/job_builder.h"
#include "core/plan/launcher.h"

namespace lockstep::convert {
namespace {

bool IsSurrounding(std::string_view program) {
  return IsOneOf(program, {"module", "ml", "conda", "mamba", "micromamba", "source", ".", "spack",
                           "pip", "pip3", "uv", "pixi", "guix", "eval"});
}

// A script's path, or a Python that runs one.
bool IsProgram(const std::vector<std::string>& words) {
  const std::string_view program = core::BaseName(words[0]);
  if (core::IsPython(program) || IsShell(program)) {
    return words.size() > 1 && !IsOneOf(words[1], {"-c", "-V", "--version"});
  }
  return program.ends_with(".py") || program.ends_with(".sh") || words[0].starts_with("./");
}

}  // namespace

bool IsQuiet(std::string_view program) {
  return IsOneOf(program,
                 {"echo",     "printf",   "date",  "hostname", "nvidia-smi", "rocm-smi", "set",
                  "shopt",    "printenv", "env",   "pwd",      "wait",       "exit",     "true",
                  ":",        "sleep",    "which", "whoami",   "uname",      "lscpu",    "free",
                  "df",       "ls",       "cat",   "test",     "[",          "[[",       "trap",
                  "scontrol", "squeue",   "nproc", "numactl",  "ulimit",     "umask",    "shift"});
}

bool IsShell(std::string_view program) {
  return IsOneOf(program, {"sh", "bash", "dash", "ash", "zsh"});
}

Role RoleOf(const std::vector<std::string>& words) {
  const std::string_view program = core::BaseName(words[0]);
  if (!core::LauncherOf(words).empty()) return Role::kTraining;
  if (IsProgram(words)) return Role::kProgram;
  if (IsSurrounding(program)) return Role::kSurrounds;
  return IsQuiet(program) ? Role::kQuiet : Role::kOther;
}

}  // namespace lockstep::convert
