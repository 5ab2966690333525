#include "worker/agent/evidence/py_spy.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <utility>
#include <variant>

#include "base/process.h"
#include "worker/agent/evidence/armed_stacks.h"

namespace lockstep::agent {
namespace {

// What comes until the pipe ends, `until` or `limit` bytes.
std::string ReadUntil(int fd, Time until, size_t limit, bool* ended) {
  std::string text;
  std::array<char, 4096> buffer;
  *ended = false;
  while (text.size() < limit) {
    const auto left = (until - BootTime()) / milliseconds(1);
    if (left <= 0) break;
    pollfd wait{fd, POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(left)) <= 0) continue;
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    *ended = got <= 0;
    if (*ended) break;
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return text;
}

}  // namespace

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
