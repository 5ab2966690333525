#include "worker/agent/install.h"

#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/file.h"
#include "worker/pmix/message.h"

namespace lockstep::agent {
namespace {

constexpr size_t kMaxProgram = size_t{256} << 20;

}  // namespace

Status InstallSelf(const std::string& folder) {
  const Result<std::string> self = ReadFile("/proc/self/exe", kMaxProgram);
  if (!self.ok()) return self.error();
  // Whoever the user's container runs as must be able to run them.
  Status agent = WriteFileAtomically(folder + "/lockstep-agent", *self, {.mode = 0555});
  if (!agent.ok()) return agent;
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  const Result<std::string> helper =
      ReadFile((own.parent_path() / pmix::kHelperProgram).string(), kMaxProgram);
  if (!helper.ok()) return helper.error().kind == ErrorKind::kNotFound ? Status() : helper.error();
  return WriteFileAtomically(folder + "/" + pmix::kHelperProgram, *helper, {.mode = 0555});
}

}  // namespace lockstep::agent
