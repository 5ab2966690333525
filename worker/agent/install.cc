#include "worker/agent/install.h"

#include <filesystem>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/process/process.h"
#include "worker/agent/storage/object_store.h"
#include "worker/pmix/message.h"

namespace lockstep::agent {
namespace {

// The user's container may run as any user.
constexpr WriteOptions kForAll = {.mode = 0555};
// The kernel lets no other process look into a program that its user cannot read, from its first
// instruction on. Ranks have the agent's user, and may not read the credentials of lockstep-s3.
constexpr WriteOptions kRunOnly = {.mode = 0111};

}  // namespace

Status InstallSelf(const std::string& folder) {
  Status agent = CopyFileAtomically("/proc/self/exe", folder + "/lockstep-agent", kForAll);
  if (!agent.ok()) return agent;
  const Result<std::string> self = OwnProgram();
  if (!self.ok()) return self.error();
  const auto beside = std::filesystem::path(*self).parent_path();
  for (const auto& [program, options] :
       {std::pair(pmix::kHelperProgram, kForAll), std::pair(kS3Program, kRunOnly)}) {
    Status copied =
        CopyFileAtomically((beside / program).string(), folder + "/" + program, options);
    if (!copied.ok() && copied.error().kind != ErrorKind::kNotFound) return copied;
  }
  return {};
}

}  // namespace lockstep::agent
