#include "cli/run/other_python.h"

#include <filesystem>
#include <variant>

#include "base/process/process.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

// "python", "python3", "python3.12".
bool IsBarePython(const std::string& word) {
  constexpr std::string_view kPython = "python";
  return word.starts_with(kPython) &&
         word.find_first_not_of("0123456789.", kPython.size()) == std::string::npos;
}

bool IsOwnEnvironment(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "pyvenv.cfg", error) &&
         !fs::exists(folder / "pipx_metadata.json", error) &&
         !fs::exists(folder / "uv-receipt.toml", error);
}

}  // namespace

std::string OtherPythonHint(const std::string& program, const std::vector<std::string>& command,
                            const std::string& path) {
  const fs::path programs = fs::path(program).parent_path();
  if (command.empty() || !IsBarePython(command.front()) ||
      !IsOwnEnvironment(programs.parent_path())) {
    return "";
  }
  const auto found = FindExecutable(command.front(), path, "");
  const auto* python = std::get_if<std::string>(&found);
  std::error_code error;
  if (python == nullptr || fs::equivalent(fs::path(*python).parent_path(), programs, error)) {
    return "";
  }
  fs::path own = programs / command.front();
  if (!fs::exists(own, error)) own = programs / "python";  // python3.12 of an environment of 3.11
  return "hint: " + command.front() + " is " + *python + ", which lacks the modules of " +
         programs.parent_path().string() + "; activate that environment" +
         (fs::exists(own, error) ? ", or write " + own.string() : "");
}

}  // namespace lockstep::cli
