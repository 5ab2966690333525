#include "worker/agent/install.h"

#include <filesystem>
#include <string>

#include "base/file.h"
#include "base/process/process.h"
#include "worker/agent/storage/object_store.h"
#include "worker/pmix/message.h"

namespace lockstep::agent {
namespace {

// Whoever the user's container runs as must be able to run them.
constexpr WriteOptions kForAll = {.mode = 0555};

}  // namespace

Status InstallSelf(const std::string& folder) {
  Status agent = CopyFileAtomically("/proc/self/exe", folder + "/lockstep-agent", kForAll);
  if (!agent.ok()) return agent;
  const Result<std::string> self = OwnProgram();
  if (!self.ok()) return self.error();
  const auto beside = std::filesystem::path(*self).parent_path();
  for (const char* program : {pmix::kHelperProgram, kS3Program}) {
    Status copied =
        CopyFileAtomically((beside / program).string(), folder + "/" + program, kForAll);
    if (!copied.ok() && copied.error().kind != ErrorKind::kNotFound) return copied;
  }
  return {};
}

}  // namespace lockstep::agent
