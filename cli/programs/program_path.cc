#include "cli/programs/program_path.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/process/process.h"

namespace lockstep::cli {

namespace fs = std::filesystem;

bool IsExecutable(const std::string& path) {
  std::error_code error;
  return access(path.c_str(), X_OK) == 0 && fs::is_regular_file(path, error);
}

Result<std::string> FindProgram(const std::string& name) {
  const Result<std::string> own = OwnProgram();
  if (!own.ok()) return own.error();
  const fs::path self = *own;
  std::error_code error;
  const char* path = std::getenv("PATH");
  std::istringstream folders(self.parent_path().string() + ":" + (path == nullptr ? "" : path));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = (fs::path(folder) / name).string();
    if (folder.empty() || !IsExecutable(candidate)) continue;
    if (!fs::equivalent(candidate, self, error)) return fs::absolute(candidate).string();
  }
  return Error::NotFound("no " + name + " beside " + self.string() + " and none in PATH");
}

}  // namespace lockstep::cli
