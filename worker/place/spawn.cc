#include "worker/place/spawn.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>
#include <variant>

#include "base/file.h"
#include "base/folder.h"
#include "base/process/process.h"
#include "base/process/stop_signals.h"

namespace lockstep::place {
namespace {

constexpr size_t kMaxLastMessage = 16 << 10;
constexpr int kOutputPipe = 256 * 1024;  // bytes; a bonus that may be refused

// What the child writes and mounts; it allocates nothing.
struct Preparation {
  std::string uid;
  std::string gid;
  std::string host_name;    // "": the computer's
  std::string hosts_file;   // in place of kHosts
  bool host_named = false;  // written by the child
  bool own_shared_memory = false;
  std::vector<std::string> folders;  // of /dev/shm, to be kept in sight
};
constexpr const char* kSharedMemory = "/dev/shm";
constexpr const char* kHosts = "/etc/hosts";
constexpr size_t kMostFolders = 64;

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
int MountProc() noexcept {
  const bool mounted =
      mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0 &&
      mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0;
  return mounted ? 0 : errno;
}

// A folder of the old /dev/shm, which `fd` holds, in its place in the new one.
bool BindFolder(int fd, const char* path) noexcept {
  std::array<char, 32> source{};
  std::snprintf(source.data(), source.size(), "/proc/self/fd/%d", fd);
  return mkdir(path, 0700) == 0 && mount(source.data(), path, nullptr, MS_BIND, nullptr) == 0;
}

// All or nothing: without one of the folders, the old one shows again.
void MountSharedMemory(const Preparation& preparation) noexcept {
  std::array<int, kMostFolders> fds{};
  const size_t count = preparation.folders.size();
  for (size_t i = 0; i < count; ++i) {
    fds[i] = open(preparation.folders[i].c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  }
  constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV;
  if (mount("lockstep", kSharedMemory, "tmpfs", kFlags, "mode=1777") != 0) return;
  for (size_t i = 0; i < count; ++i) {
    if (fds[i] < 0 || BindFolder(fds[i], preparation.folders[i].c_str())) continue;
    umount2(kSharedMemory, MNT_DETACH);
    return;
  }
}

// The name is set only where it can be looked up: programs look up their own, and one that no file
// knows is asked of a name server, which may take seconds.
void NameHost(Preparation* preparation) noexcept {
  const std::string& name = preparation->host_name;
  if (name.empty()) return;
  preparation->host_named =
      mount(preparation->hosts_file.c_str(), kHosts, nullptr, MS_BIND, nullptr) == 0 &&
      unshare(CLONE_NEWUTS) == 0 && sethostname(name.data(), name.size()) == 0;
}

int Mount(void* data) noexcept {
  KeepStopSignals();
  auto* preparation = static_cast<Preparation*>(data);
  const int error = MountProc();
  if (error != 0) return error;
  // The file may lie in /dev/shm, which is about to be hidden.
  NameHost(preparation);
  if (preparation->own_shared_memory) MountSharedMemory(*preparation);
  return 0;
}

int MapIdsAndMount(void* data) noexcept {
  const auto* maps = static_cast<const Preparation*>(data);
  int error = WriteFile("/proc/self/setgroups", "deny");
  if (error == 0) error = WriteFile("/proc/self/uid_map", maps->uid);
  if (error == 0) error = WriteFile("/proc/self/gid_map", maps->gid);
  return error == 0 ? Mount(data) : error;
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

struct Line {
  UniqueFd theirs;
  UniqueFd ours;
};

Result<Line> MakePipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return ErrnoError("pipe", errno);
  return Line{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Result<Line> MakeSocketPair() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return ErrnoError("socketpair", errno);
  }
  return Line{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

SpawnedAgent AgentOf(SpawnedProcess process, UniqueFd config) {
  if (process.stdout_fd.valid()) fcntl(process.stdout_fd.get(), F_SETPIPE_SZ, kOutputPipe);
  SpawnedAgent agent;
  agent.pid = process.pid;
  agent.pidfd = std::move(process.pidfd);
  agent.config = std::move(config);
  agent.output = std::move(process.stdout_fd);
  agent.log = std::move(process.stderr_fd);
  return agent;
}

std::vector<std::string> FoldersOfSharedMemory() {
  std::vector<std::string> folders;
  ForEachEntry(kSharedMemory, [&folders](const std::filesystem::directory_entry& entry) {
    std::error_code gone;
    if (std::filesystem::is_directory(entry.symlink_status(gone))) folders.push_back(entry.path());
  });
  return folders;
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
  Result<Line> line = MakeSocketPair();
  if (!line.ok()) return line.error();
  const std::string user = std::to_string(geteuid());
  const std::string group = std::to_string(getegid());
  Preparation preparation{.uid = user + " " + user + " 1",
                          .gid = group + " " + group + " 1",
                          .host_name = spec.host_name,
                          .hosts_file = spec.hosts_file,
                          .folders = {}};
  if (spec.own_shared_memory) {
    preparation.folders = FoldersOfSharedMemory();
    preparation.own_shared_memory = preparation.folders.size() <= kMostFolders;
  }

  SpawnRequest request;
  request.path = spec.program;
  request.argv = {spec.program};
  request.argv.insert(request.argv.end(), spec.arguments.begin(), spec.arguments.end());
  request.env = OwnEnvironment();
  request.own_session = true;
  request.extra_fds = {line->theirs.get()};
  request.capture_stdout = request.capture_stderr = spec.capture_output;
  request.namespaces = CloneFlags(spec.isolation);
  if (spec.isolation == Isolation::kNamespace) request.hook = &Mount;
  if (spec.isolation == Isolation::kUserNamespace) request.hook = &MapIdsAndMount;
  request.hook_data = &preparation;
  request.hook_name = "isolation";

  SpawnResult result = spawner->Spawn(request);
  if (const auto* failure = std::get_if<SpawnFailure>(&result)) return SpawnError(spec, *failure);
  SpawnedAgent agent = AgentOf(std::move(std::get<SpawnedProcess>(result)), std::move(line->ours));
  agent.host_named = preparation.host_named;
  return agent;
}

void TellConfig(const SpawnedAgent& agent, const std::string& json) {
  [[maybe_unused]] const Status written =
      WriteAll(agent.config.get(), json, "an agent's configuration");
  shutdown(agent.config.get(), SHUT_WR);
}

std::string ReadLastMessage(const SpawnedAgent& agent) {
  std::string message;
  std::array<char, 4096> block;
  while (message.size() < kMaxLastMessage) {
    const ssize_t n = recv(agent.config.get(), block.data(), block.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    message.append(block.data(), static_cast<size_t>(n));
  }
  return message;
}

Result<SpawnedAgent> SpawnIsolated(Spawner* spawner, SpawnSpec* spec,
                                   const std::function<void(const Error&)>& refused) {
  while (true) {
    Result<SpawnedAgent> agent = SpawnAgent(spawner, *spec);
    const bool denied = !agent.ok() && agent.error().kind == ErrorKind::kDenied;
    if (!denied || spec->isolation == Isolation::kNone) return agent;
    refused(agent.error());
    spec->isolation =
        spec->isolation == Isolation::kNamespace ? Isolation::kUserNamespace : Isolation::kNone;
  }
}

Result<SpawnedAgent> SpawnClient(Spawner* spawner, const std::vector<std::string>& argv,
                                 std::vector<std::string> env) {
  Result<Line> line = MakePipe();
  if (!line.ok()) return line.error();
  const char* path = std::getenv("PATH");
  auto found = FindExecutable(argv.front(), path == nullptr ? "" : path, "");
  if (const auto* failure = std::get_if<SpawnFailure>(&found)) {
    return Error::NotFound(failure->message);
  }
  SpawnRequest request;
  request.path = std::get<std::string>(found);
  request.argv = argv;
  request.env = std::move(env);
  request.stdin_fd = line->theirs.get();
  request.own_session = true;
  request.dies_with_parent = false;
  SpawnResult result = spawner->Spawn(request);
  if (const auto* failure = std::get_if<SpawnFailure>(&result)) {
    return Error::Unavailable(failure->message);
  }
  return AgentOf(std::move(std::get<SpawnedProcess>(result)), std::move(line->ours));
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

}  // namespace lockstep::place
