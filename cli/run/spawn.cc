#include "cli/run/spawn.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>
#include <variant>

#include "base/process.h"

namespace lockstep::cli {
namespace {

constexpr int kOutputPipe = 256 * 1024;  // bytes; a bonus that may be refused

// What the child writes; it allocates nothing.
struct IdMaps {
  std::string uid;
  std::string gid;
};

// 0, or an errno.
int WriteFile(const char* path, std::string_view text) {
  const UniqueFd fd(open(path, O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) return errno;
  const ssize_t n = write(fd.get(), text.data(), text.size());
  if (n < 0) return errno;
  return n == static_cast<ssize_t>(text.size()) ? 0 : EIO;
}

// Mounts of the computer still come in; none of ours goes out. Without a /proc of its own the agent
// would read of other processes under its own processes' numbers.
int MountProc(void*) noexcept {
  const bool mounted =
      mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0 &&
      mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0;
  return mounted ? 0 : errno;
}

int MapIdsAndMountProc(void* data) noexcept {
  const auto* maps = static_cast<const IdMaps*>(data);
  int error = WriteFile("/proc/self/setgroups", "deny");
  if (error == 0) error = WriteFile("/proc/self/uid_map", maps->uid);
  if (error == 0) error = WriteFile("/proc/self/gid_map", maps->gid);
  return error == 0 ? MountProc(nullptr) : error;
}

int CloneFlags(Isolation isolation) {
  switch (isolation) {
    case Isolation::kNamespace:
      return CLONE_NEWPID | CLONE_NEWNS;
    case Isolation::kUserNamespace:
      return CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS;
    case Isolation::kNone:
      return 0;
  }
  return 0;
}

Error SpawnError(const SpawnSpec& spec, const SpawnFailure& failure) {
  const int error = failure.errno_value;
  const bool refused = error == EPERM || error == ENOSPC || error == EINVAL || error == ENOSYS;
  if (spec.isolation != Isolation::kNone &&
      (failure.step == SpawnFailure::Step::kHook ||
       (failure.step == SpawnFailure::Step::kClone && refused))) {
    return Error::Denied(std::string(ToString(spec.isolation)) + ": " + std::strerror(error));
  }
  return failure.not_found() ? Error::NotFound(failure.message)
                             : Error::Unavailable(failure.message);
}

// The children of this process's main thread.
std::vector<pid_t> Children() {
  std::string self = std::to_string(getpid());
  std::ifstream file("/proc/" + self + "/task/" + self + "/children");
  std::vector<pid_t> children;
  pid_t pid = 0;
  while (file >> pid) children.push_back(pid);
  return children;
}

}  // namespace

const char* ToString(Isolation isolation) {
  switch (isolation) {
    case Isolation::kNamespace:
      return "PID namespace";
    case Isolation::kUserNamespace:
      return "user and PID namespace";
    case Isolation::kNone:
      return "no namespace";
  }
  return "";
}

Result<SpawnedAgent> SpawnAgent(Spawner* spawner, const SpawnSpec& spec) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return ErrnoError("pipe", errno);
  const UniqueFd config(ends[0]);
  UniqueFd write_config(ends[1]);
  const std::string user = std::to_string(geteuid());
  const std::string group = std::to_string(getegid());
  IdMaps maps{user + " " + user + " 1", group + " " + group + " 1"};

  SpawnRequest request;
  request.path = spec.program;
  request.argv = {spec.program};
  request.argv.insert(request.argv.end(), spec.arguments.begin(), spec.arguments.end());
  for (char** variable = environ; *variable != nullptr; ++variable) {
    request.env.emplace_back(*variable);
  }
  request.own_session = true;
  request.extra_fds = {config.get()};
  request.namespaces = CloneFlags(spec.isolation);
  if (spec.isolation == Isolation::kNamespace) request.hook = &MountProc;
  if (spec.isolation == Isolation::kUserNamespace) request.hook = &MapIdsAndMountProc;
  request.hook_data = &maps;
  request.hook_name = "isolation";

  SpawnResult result = spawner->Spawn(request);
  if (const auto* failure = std::get_if<SpawnFailure>(&result)) return SpawnError(spec, *failure);
  auto& process = std::get<SpawnedProcess>(result);
  fcntl(process.stdout_fd.get(), F_SETPIPE_SZ, kOutputPipe);
  SpawnedAgent agent;
  agent.pid = process.pid;
  agent.pidfd = std::move(process.pidfd);
  agent.config = std::move(write_config);
  agent.output = std::move(process.stdout_fd);
  agent.log = std::move(process.stderr_fd);
  return agent;
}

bool SweepOrphans(const std::vector<pid_t>& agents) {
  // What a process leaves behind comes here before it can be reaped: so a listing that shows
  // nothing is the end, and one of which all could be reaped is not.
  for (;;) {
    size_t found = 0;
    size_t reaped = 0;
    for (const pid_t pid : Children()) {
      if (std::find(agents.begin(), agents.end(), pid) != agents.end()) continue;
      ++found;
      kill(pid, SIGKILL);
      if (waitpid(pid, nullptr, WNOHANG) == pid) ++reaped;
    }
    if (found == 0) return true;
    if (reaped == 0) return false;
  }
}

Status BecomeSubreaper() {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return ErrnoError("prctl", errno);
  return {};
}

}  // namespace lockstep::cli
