#include "cli/run/spawn.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fstream>

#include "core/exit_codes.h"

namespace lockstep::cli {
namespace {

constexpr size_t kStackSize = 64 * 1024;
constexpr int kOutputPipe = 256 * 1024;  // bytes; a bonus that may be refused
constexpr int kFirstSpare = 16;          // descriptors below it may be overwritten in the child

enum class Step : uint8_t { kNone, kIsolate, kPrepare, kExec };

// What the child needs, laid out by the parent: the child allocates nothing. It shares this memory,
// so what it writes into `failed` and `error` the parent reads.
struct ChildPlan {
  const char* program = nullptr;
  char* const* arguments = nullptr;
  Isolation isolation = Isolation::kNone;
  int null_fd = -1;
  int output_fd = -1;
  int log_fd = -1;
  int config_fd = -1;
  rlimit open_files{};
  std::string uid_map;
  std::string gid_map;
  Step failed = Step::kNone;
  int error = 0;
};

bool WriteFile(const char* path, const std::string& text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t n = write(fd, text.data(), text.size());
  int error = errno;
  close(fd);
  errno = error;
  return n == static_cast<ssize_t>(text.size());
}

bool Isolate(const ChildPlan& plan) {
  if (plan.isolation == Isolation::kNone) return true;
  if (plan.isolation == Isolation::kUserNamespace) {
    static const std::string kDeny = "deny";
    if (!WriteFile("/proc/self/setgroups", kDeny) ||
        !WriteFile("/proc/self/uid_map", plan.uid_map) ||
        !WriteFile("/proc/self/gid_map", plan.gid_map)) {
      return false;
    }
  }
  // Mounts of the computer still come in; none of ours goes out. Without a /proc of its own the
  // agent would read of other processes under its own processes' numbers.
  return mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0 &&
         mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0;
}

bool Prepare(const ChildPlan& plan) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || setsid() < 0) return false;
  if (setrlimit(RLIMIT_NOFILE, &plan.open_files) != 0) return false;
  for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  if (sigprocmask(SIG_SETMASK, &none, nullptr) != 0) return false;
  return dup2(plan.null_fd, STDIN_FILENO) >= 0 && dup2(plan.output_fd, STDOUT_FILENO) >= 0 &&
         dup2(plan.log_fd, STDERR_FILENO) >= 0 && dup2(plan.config_fd, kConfigFd) >= 0;
}

int Child(void* argument) {
  auto* plan = static_cast<ChildPlan*>(argument);
  if (!Isolate(*plan)) {
    plan->failed = Step::kIsolate;
  } else if (!Prepare(*plan)) {
    plan->failed = Step::kPrepare;
  } else {
    execv(plan->program, plan->arguments);
    plan->failed = Step::kExec;
  }
  plan->error = errno;
  _exit(core::kExitCommandNotFound);
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

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

// Both ends above what the child overwrites.
Result<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return ErrnoError("pipe", errno);
  Pipe pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
  for (UniqueFd* end : {&pipe.read, &pipe.write}) {
    if (end->get() >= kFirstSpare) continue;
    end->reset(fcntl(end->get(), F_DUPFD_CLOEXEC, kFirstSpare));
    if (!end->valid()) return ErrnoError("fcntl", errno);
  }
  return pipe;
}

Error SpawnError(const SpawnSpec& spec, Step step, int error) {
  if (step == Step::kIsolate) {
    return Error::Denied(std::string(ToString(spec.isolation)) + ": " + std::strerror(error));
  }
  std::string message = "cannot start " + spec.program + ": " + std::strerror(error);
  return error == ENOENT ? Error::NotFound(message) : Error::Unavailable(message);
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

Result<SpawnedAgent> SpawnAgent(const SpawnSpec& spec) {
  Result<Pipe> config = MakePipe();
  if (!config.ok()) return config.error();
  Result<Pipe> output = MakePipe();
  if (!output.ok()) return output.error();
  fcntl(output->write.get(), F_SETPIPE_SZ, kOutputPipe);
  Result<Pipe> log = MakePipe();
  if (!log.ok()) return log.error();
  UniqueFd null_fd(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null_fd.valid()) return ErrnoError("cannot open /dev/null", errno);

  std::vector<std::string> text = {spec.program};
  text.insert(text.end(), spec.arguments.begin(), spec.arguments.end());
  std::vector<char*> arguments;
  for (std::string& argument : text) arguments.push_back(argument.data());
  arguments.push_back(nullptr);

  ChildPlan plan;
  plan.program = spec.program.c_str();
  plan.arguments = arguments.data();
  plan.isolation = spec.isolation;
  plan.null_fd = null_fd.get();
  plan.output_fd = output->write.get();
  plan.log_fd = log->write.get();
  plan.config_fd = config->read.get();
  plan.open_files = spec.open_files;
  plan.uid_map = std::to_string(geteuid()) + " " + std::to_string(geteuid()) + " 1";
  plan.gid_map = std::to_string(getegid()) + " " + std::to_string(getegid()) + " 1";

  // No handler of ours may run on the child's stack.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  std::vector<char> stack(kStackSize);
  int pidfd = -1;
  int flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | CloneFlags(spec.isolation) | SIGCHLD;
  pid_t pid = clone(Child, stack.data() + stack.size(), flags, &plan, &pidfd);
  int error = errno;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) {
    bool refused = error == EPERM || error == ENOSPC || error == EINVAL || error == ENOSYS;
    bool isolated = spec.isolation != Isolation::kNone;
    return SpawnError(spec, refused && isolated ? Step::kIsolate : Step::kPrepare, error);
  }
  UniqueFd owned_pidfd(pidfd);
  if (plan.failed != Step::kNone) {
    waitpid(pid, nullptr, 0);
    return SpawnError(spec, plan.failed, plan.error);
  }
  SpawnedAgent agent;
  agent.pid = pid;
  agent.pidfd = std::move(owned_pidfd);
  agent.config = std::move(config->write);
  agent.output = std::move(output->read);
  agent.log = std::move(log->read);
  return agent;
}

rlimit RaiseFileLimit() {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit raised = before;
  raised.rlim_cur = raised.rlim_max;
  setrlimit(RLIMIT_NOFILE, &raised);
  return before;
}

bool SweepOrphans(const std::vector<pid_t>& agents) {
  bool clean = true;
  for (pid_t pid : Children()) {
    if (std::find(agents.begin(), agents.end(), pid) != agents.end()) continue;
    kill(pid, SIGKILL);
    if (waitpid(pid, nullptr, WNOHANG) != pid) clean = false;
  }
  return clean;
}

Status BecomeSubreaper() {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return ErrnoError("prctl", errno);
  return {};
}

}  // namespace lockstep::cli
