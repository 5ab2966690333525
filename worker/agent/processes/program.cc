#include "worker/agent/processes/program.h"

#include <filesystem>

#include "core/plan/trainer_command.h"

namespace lockstep::agent {

std::variant<std::string, SpawnFailure> FindProgram(const std::string& name,
                                                    const std::string& path,
                                                    const std::string& working_directory) {
  const Result<std::string> own = OwnProgram();
  if (name != core::kTrainerProgram || !own.ok()) {
    return FindExecutable(name, path, working_directory);
  }
  const std::string beside = std::filesystem::path(*own).parent_path().string();
  return FindExecutable(name, beside + ":" + path, working_directory);
}

}  // namespace lockstep::agent
