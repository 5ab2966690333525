#include "worker/trainer/process/environment.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/text/ascii.h"

namespace lockstep::trainer {

namespace {
std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Made by the agent of a job that has checkpoint.memory.
std::string MemoryDir() {
  const std::string local = Variable("LOCKSTEP_LOCAL_DIR");
  std::error_code ignored;
  const std::string folder = local + "/checkpoints";
  return !local.empty() && std::filesystem::is_directory(folder, ignored) ? folder : "";
}
}  // namespace

Environment ReadEnvironment() {
  return {Variable("LOCKSTEP_JOB_UID"),
          Variable("LOCKSTEP_GENERATION"),
          Variable("LOCKSTEP_SOCKET"),
          Variable("LOCKSTEP_CHECKPOINT_DIR"),
          Variable("LOCKSTEP_RESUME_DIR"),
          Variable("LOCKSTEP_SKIP_STEPS"),
          MemoryDir(),
          ParseNumber<int>(Variable("RANK")).value_or(0)};
}

}  // namespace lockstep::trainer
