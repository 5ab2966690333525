#include "cli/program_path.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace lockstep::cli {

namespace fs = std::filesystem;

bool IsExecutable(const std::string& path) {
  std::error_code error;
  return access(path.c_str(), X_OK) == 0 && fs::is_regular_file(path, error);
}

Result<std::string> FindProgram(const std::string& name) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
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
