#include "base/process/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/process/kernel.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
// The C library's own name for clone(): ThreadSanitizer's wrapper takes any clone for a fork.
extern "C" int __clone(int (*)(void*), void*, int, void*, ...);
#define LOCKSTEP_CLONE __clone
#endif
#endif
#ifndef LOCKSTEP_CLONE
#define LOCKSTEP_CLONE clone
#endif

namespace lockstep {
namespace {

constexpr size_t kStackSize = 64 * 1024;
constexpr int kFirstExtraFd = 3;

// Below the stack: one page, which has 4, 16 or 64 KiB on arm64.
size_t GuardSize() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

// Everything the child needs. The parent prepares it, for the child must not allocate.
struct ChildPlan {
  const char* path = nullptr;
  char* const* argv = nullptr;
  char* const* env = nullptr;
  const char* working_directory = nullptr;  // null: stays
  SpawnHook hook = nullptr;
  void* hook_data = nullptr;
  int stdin_fd = -1;
  int stdout_fd = -1;  // -1: inherited
  int stderr_fd = -1;
  int* extra_fds = nullptr;  // already above all target numbers
  int extra_count = 0;
  bool own_session = false;
  bool dies_with_parent = false;
  pid_t parent = 0;  // as the child sees it: 0 from a PID namespace of its own
  const char* hook_name = nullptr;
  rlimit file_limit{};
  // Written by the child.
  int error = 0;
  const char* failed = nullptr;
  SpawnFailure::Step step = SpawnFailure::Step::kPrepare;
};

// Async-signal-safe, and without sanitizers' bookkeeping: it runs on another stack, in its parent's
// memory.
__attribute__((no_sanitize("address", "thread", "undefined"))) int Fail(ChildPlan* plan,
                                                                        const char* what,
                                                                        int error) {
  plan->failed = what;
  plan->error = error;
  _exit(EXIT_FAILURE);
}

__attribute__((no_sanitize("address", "thread", "undefined"))) void ResetSignals() {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

__attribute__((no_sanitize("address", "thread", "undefined"))) int RunChild(void* argument) {
  auto* plan = static_cast<ChildPlan*>(argument);
  if (plan->own_session ? setsid() < 0 : setpgid(0, 0) != 0) return Fail(plan, "setpgid", errno);
  if (plan->dies_with_parent) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return Fail(plan, "prctl", errno);
    if (getppid() != plan->parent) _exit(EXIT_FAILURE);
  }
  ResetSignals();
  if (dup2(plan->stdin_fd, STDIN_FILENO) < 0 ||
      (plan->stdout_fd >= 0 && dup2(plan->stdout_fd, STDOUT_FILENO) < 0) ||
      (plan->stderr_fd >= 0 && dup2(plan->stderr_fd, STDERR_FILENO) < 0)) {
    return Fail(plan, "dup2", errno);
  }
  for (int i = 0; i < plan->extra_count; ++i) {
    if (dup2(plan->extra_fds[i], kFirstExtraFd + i) < 0) return Fail(plan, "dup2", errno);
  }
  // This process's own descriptors are close-on-exec already; the call is for those it inherited.
  // A sandbox may refuse it (base/process/kernel.h).
  syscall(SYS_close_range, kFirstExtraFd + plan->extra_count, ~0U, CLOSE_RANGE_CLOEXEC);
  if (plan->working_directory != nullptr && chdir(plan->working_directory) != 0) {
    return Fail(plan, "chdir", errno);
  }
  setrlimit(RLIMIT_NOFILE, &plan->file_limit);
  if (plan->hook != nullptr) {
    plan->step = SpawnFailure::Step::kHook;
    const int error = plan->hook(plan->hook_data);
    if (error != 0) return Fail(plan, plan->hook_name, error);
  }
  plan->step = SpawnFailure::Step::kExec;
  execve(plan->path, plan->argv, plan->env);
  return Fail(plan, "execve", errno);
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  // execve does not write to them; its type is older than const.
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// No signal may be handled in the child while it shares our memory.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

struct OutputPipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

// A descriptor above 2: the child overwrites 0, 1 and 2, which are free in a process that was
// started without them.
bool MoveUp(UniqueFd* fd) {
  if (fd->get() < kFirstExtraFd) fd->reset(fcntl(fd->get(), F_DUPFD_CLOEXEC, kFirstExtraFd));
  return fd->valid();
}

std::optional<OutputPipe> MakePipe() {
  std::array<int, 2> fds{};
  if (pipe2(fds.data(), O_CLOEXEC) != 0) return std::nullopt;
  OutputPipe made{UniqueFd(fds[0]), UniqueFd(fds[1])};
  if (!MoveUp(&made.read_end) || !MoveUp(&made.write_end)) return std::nullopt;
  // Affects the read end alone: the two ends of a pipe are two open files.
  if (fcntl(made.read_end.get(), F_SETFL, O_NONBLOCK) != 0) return std::nullopt;
  return made;
}

// What a script's first line names, with what follows it; "": it is no script.
std::string InterpreterOf(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, 256> bytes{};  // as many as the kernel reads
  const ssize_t got = fd.valid() ? read(fd.get(), bytes.data(), bytes.size()) : -1;
  std::string_view line(bytes.data(), got > 0 ? static_cast<size_t>(got) : 0);
  line = line.substr(0, line.find('\n'));
  if (!line.starts_with("#!")) return "";
  line.remove_prefix(std::min(line.find_first_not_of(" \t", 2), line.size()));
  return std::string(line);
}

// The kernel says ENOENT for a file and for its interpreter, and EACCES for several things.
std::string WhyNotExecuted(const std::string& path, int error) {
  std::string reason = std::strerror(error);
  struct stat info{};
  const bool there = stat(path.c_str(), &info) == 0;
  if (error == ENOENT && !there) return "there is no such file";
  if (error == ENOENT) {
    const std::string interpreter = InterpreterOf(path);
    if (interpreter.empty()) return "its dynamic loader, or a library's, does not exist";
    if (interpreter.ends_with('\r')) {
      return "its lines end as Windows writes them (CRLF), so its interpreter is not found; "
             "convert it, as by sed -i 's/\\r$//'";
    }
    return "the interpreter that its first line names, " +
           interpreter.substr(0, interpreter.find_first_of(" \t")) + ", does not exist here";
  }
  if (error == EACCES && there && S_ISDIR(info.st_mode)) return "it is a folder";
  if (error == EACCES && there && access(path.c_str(), X_OK) != 0) {
    return "it is not executable (chmod +x, or name its interpreter first)";
  }
  if (error == ENOEXEC) return reason + " (a script needs a first line such as #!/bin/sh)";
  return reason;
}

SpawnFailure FailureOf(SpawnFailure::Step step, const std::string& what, const std::string& path,
                       int error) {
  SpawnFailure failure;
  failure.step = step;
  failure.errno_value = error;
  failure.message = "cannot start " + path + ": ";
  failure.message += step == SpawnFailure::Step::kExec ? WhyNotExecuted(path, error)
                                                       : what + ": " + std::strerror(error);
  return failure;
}

}  // namespace

bool SpawnFailure::not_found() const {
  return step == Step::kExec && (errno_value == ENOENT || errno_value == ENOTDIR);
}

Result<std::unique_ptr<Spawner>> Spawner::Create() {
  if (Status status = CheckKernel(); !status.ok()) return status.error();
  std::unique_ptr<Spawner> spawner(new Spawner);
  spawner->null_.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!spawner->null_.valid()) {
    // A bare root file system has no /dev/null; a pipe without a writer reads as empty, too.
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return ErrnoError("pipe2", errno);
    spawner->null_.reset(ends[0]);
    close(ends[1]);
  }
  if (!MoveUp(&spawner->null_)) return ErrnoError("fcntl", errno);
  const size_t guard = GuardSize();
  void* stack = mmap(nullptr, guard + kStackSize, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return ErrnoError("mmap of a stack", errno);
  spawner->stack_ = stack;
  if (mprotect(stack, guard, PROT_NONE) != 0) return ErrnoError("mprotect of a stack", errno);
  if (getrlimit(RLIMIT_NOFILE, &spawner->file_limit_) != 0) return ErrnoError("getrlimit", errno);
  return spawner;
}

Spawner::~Spawner() {
  if (stack_ != nullptr) munmap(stack_, GuardSize() + kStackSize);
}

void Spawner::RaiseOwnFileLimit() {
  rlimit raised = file_limit_;
  raised.rlim_cur = raised.rlim_max;
  setrlimit(RLIMIT_NOFILE, &raised);
}

SpawnResult Spawner::Spawn(const SpawnRequest& request) {
  using Step = SpawnFailure::Step;
  const std::vector<char*> argv = Pointers(request.argv);
  const std::vector<char*> env = Pointers(request.env);
  std::optional<OutputPipe> out;
  std::optional<OutputPipe> err;
  if (request.capture_stdout) out = MakePipe();
  if (request.capture_stderr) err = MakePipe();
  if ((request.capture_stdout && !out) || (request.capture_stderr && !err)) {
    return FailureOf(Step::kPrepare, "pipe", request.path, errno);
  }
  // Copies above every target number, so that no dup2 in the child overwrites a later source.
  const int first_free = kFirstExtraFd + static_cast<int>(request.extra_fds.size());
  std::vector<UniqueFd> extra_copies;
  std::vector<int> extra_fds;
  for (const int fd : request.extra_fds) {
    extra_copies.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, first_free));
    if (!extra_copies.back().valid()) return FailureOf(Step::kPrepare, "dup", request.path, errno);
    extra_fds.push_back(extra_copies.back().get());
  }

  // Not where stdout or stderr go before it is looked at.
  UniqueFd stdin_copy;
  if (request.stdin_fd >= 0) {
    stdin_copy.reset(fcntl(request.stdin_fd, F_DUPFD_CLOEXEC, first_free));
    if (!stdin_copy.valid()) return FailureOf(Step::kPrepare, "dup", request.path, errno);
  }

  ChildPlan plan;
  plan.path = request.path.c_str();
  plan.argv = argv.data();
  plan.env = env.data();
  plan.working_directory =
      request.working_directory.empty() ? nullptr : request.working_directory.c_str();
  plan.hook = request.hook;
  plan.hook_data = request.hook_data;
  plan.hook_name = request.hook_name;
  plan.stdin_fd = stdin_copy.valid() ? stdin_copy.get() : null_.get();
  plan.stdout_fd = out ? out->write_end.get() : -1;
  plan.stderr_fd = err ? err->write_end.get() : -1;
  plan.extra_fds = extra_fds.data();
  plan.extra_count = static_cast<int>(extra_fds.size());
  plan.own_session = request.own_session;
  plan.dies_with_parent = request.dies_with_parent;
  plan.parent = (request.namespaces & CLONE_NEWPID) != 0 ? 0 : getpid();
  plan.file_limit = file_limit_;

  int pidfd = -1;
  pid_t pid = -1;
  int clone_error = 0;
  {
    const AllSignalsBlocked blocked;
    char* top = static_cast<char*>(stack_) + GuardSize() + kStackSize;
    pid = LOCKSTEP_CLONE(&RunChild, top,
                         CLONE_VM | CLONE_VFORK | CLONE_PIDFD | request.namespaces | SIGCHLD, &plan,
                         &pidfd);
    clone_error = errno;
  }
  if (pid < 0) return FailureOf(Step::kClone, "clone", request.path, clone_error);

  SpawnedProcess process;
  process.exec_time = BootTime();
  process.pid = pid;
  process.pidfd.reset(pidfd);
  fcntl(pidfd, F_SETFD, FD_CLOEXEC);
  if (plan.failed != nullptr) {
    waitpid(pid, nullptr, 0);
    if (std::string_view(plan.failed) == "chdir") {
      return FailureOf(plan.step, "its working directory " + request.working_directory,
                       request.path, plan.error);
    }
    const bool relative = !request.path.starts_with('/') && !request.working_directory.empty();
    return FailureOf(plan.step, plan.failed,
                     relative ? request.working_directory + "/" + request.path : request.path,
                     plan.error);
  }
  if (out) process.stdout_fd = std::move(out->read_end);
  if (err) process.stderr_fd = std::move(err->read_end);
  return process;
}

std::vector<std::string> OwnEnvironment() {
  std::vector<std::string> list;
  for (char** entry = environ; *entry != nullptr; ++entry) list.emplace_back(*entry);
  return list;
}

Result<std::string> OwnProgram() {
  constexpr const char* kLink = "/proc/self/exe";
  constexpr std::string_view kReplaced = " (deleted)";
  std::error_code error;
  std::string path = std::filesystem::read_symlink(kLink, error).string();
  if (error) return Error::Unavailable(kLink + (" cannot be read: " + error.message()));
  if (path.ends_with(kReplaced)) path.resize(path.size() - kReplaced.size());
  return path;
}

std::string OwnHostName() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

std::variant<std::string, SpawnFailure> FindExecutable(const std::string& name,
                                                       std::string_view path,
                                                       const std::string& working_directory) {
  using Step = SpawnFailure::Step;
  if (name.empty()) {
    return SpawnFailure{
        .step = Step::kExec, .errno_value = ENOENT, .message = "the command is empty"};
  }
  // execve will give the real reason.
  if (name.find('/') != std::string::npos) return name;
  bool found_but_not_executable = false;
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find(':'));
    path.remove_prefix(std::min(path.size(), part.size() + 1));
    std::string directory = part.empty() ? "." : std::string(part);
    if (directory.front() != '/' && !working_directory.empty()) {
      directory.insert(0, working_directory + "/");
    }
    std::string candidate = std::move(directory);
    candidate.append("/").append(name);
    struct stat info{};
    if (stat(candidate.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    found_but_not_executable = true;
  }
  if (found_but_not_executable) {
    return SpawnFailure{.step = Step::kExec,
                        .errno_value = EACCES,
                        .message = "cannot start " + name + ": it is not executable (chmod +x)"};
  }
  return SpawnFailure{.step = Step::kExec,
                      .errno_value = ENOENT,
                      .message = "cannot start " + name + ": there is no such command in PATH"};
}

}  // namespace lockstep
