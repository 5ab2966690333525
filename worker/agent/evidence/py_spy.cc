#include "worker/agent/evidence/py_spy.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <utility>
#include <variant>

#include "base/process/process.h"
#include "base/read_until.h"
#include "worker/agent/evidence/armed_stacks.h"

namespace lockstep::agent {
Result<std::string> RunPySpy(pid_t pid, Time until) {
  const char* path = std::getenv("PATH");
  auto found = FindExecutable("py-spy", path == nullptr ? "" : path, "");
  if (const auto* failure = std::get_if<SpawnFailure>(&found)) {
    return Error::NotFound(failure->message);
  }
  Result<std::unique_ptr<Spawner>> spawner = Spawner::Create();
  if (!spawner.ok()) return spawner.error();
  SpawnRequest request;
  request.path = std::get<std::string>(found);
  request.argv = {"py-spy", "dump", "--nonblocking", "--pid", std::to_string(pid)};
  request.env = OwnEnvironment();
  SpawnResult result = (*spawner)->Spawn(request);
  if (const auto* failure = std::get_if<SpawnFailure>(&result)) {
    return Error::Unavailable(failure->message);
  }
  const auto& process = std::get<SpawnedProcess>(result);
  bool ended = false;
  std::string text = ReadUntil(process.stdout_fd.get(), until, kMaxStacks, &ended);
  syscall(SYS_pidfd_send_signal, process.pidfd.get(), SIGKILL, nullptr, 0);
  if (!text.empty()) return text;
  if (!ended) return Error::Unavailable("py-spy gave no answer in time and was killed");
  bool ignored = false;
  std::string words = ReadUntil(process.stderr_fd.get(), until, 1024, &ignored);
  return Error::Unavailable("py-spy failed: " + words);
}

}  // namespace lockstep::agent
