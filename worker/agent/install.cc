#include "worker/agent/install.h"

#include <cstddef>
#include <string>

#include "base/file.h"

namespace lockstep::agent {
namespace {

constexpr size_t kMaxProgram = size_t{256} << 20;

}  // namespace

Status InstallSelf(const std::string& folder) {
  const Result<std::string> self = ReadFile("/proc/self/exe", kMaxProgram);
  if (!self.ok()) return self.error();
  // Whoever the user's container runs as must be able to run it.
  return WriteFileAtomically(folder + "/lockstep-agent", *self, {.mode = 0555});
}

}  // namespace lockstep::agent
