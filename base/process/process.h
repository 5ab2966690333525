// Spawner: starts processes fast and exactly: a vfork-like clone whose child sets itself up
// (process group, death signal, signals, pipes, a hook) and execs. The memory of this process is
// not copied, however large it is, and an exec that fails is reported here, with its errno.
//
//   Result<std::unique_ptr<Spawner>> spawner = Spawner::Create();
//   SpawnResult result =
//       (*spawner)->Spawn({.path = *FindExecutable("python", path, cwd), .argv = ...});
//   if (auto* process = std::get_if<SpawnedProcess>(&result)) Watch(process->pidfd.get());
//
// In the child, in this order: own process group (pgid = pid) or session; SIGKILL when the spawning
// thread dies, checked against a parent that died before; default signal handlers, empty mask;
// stdin, stdout, stderr; close-on-exec on every other descriptor; working directory; limit on open
// files as the Spawner found it; the hook; execve.
//
// PR_SET_PDEATHSIG follows the *thread* that creates the child, so spawn from the thread that lives
// as long as the child may. One thread at a time; it waits until the child has exec'ed (about
// 0.3 ms).
#ifndef LOCKSTEP_BASE_PROCESS_PROCESS_H_
#define LOCKSTEP_BASE_PROCESS_PROCESS_H_

#include <sys/resource.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/unique_fd.h"

namespace lockstep {

// Runs in the child between clone and execve, in this process's memory: what it writes to `data` is
// seen after Spawn. It may only make system calls. Not 0: an errno that stops the spawn.
using SpawnHook = int (*)(void* data) noexcept;

struct SpawnRequest {
  std::string path;  // of the file; see FindExecutable
  std::vector<std::string> argv;
  std::vector<std::string> env;        // "NAME=value"
  std::string working_directory = {};  // empty: this process's
  SpawnHook hook = nullptr;
  void* hook_data = nullptr;
  const char* hook_name = "set-up";  // for errors
  int stdin_fd = -1;                 // -1: empty
  // True: a pipe to this process. False: this process's own.
  bool capture_stdout = true;
  bool capture_stderr = true;
  // Given to the process as descriptors 3, 4, ... in this order.
  std::vector<int> extra_fds = {};
  bool dies_with_parent = true;
  bool own_session = false;  // else a process group alone
  int namespaces = 0;        // CLONE_NEW... flags
};

struct SpawnedProcess {
  pid_t pid = -1;
  UniqueFd pidfd;
  UniqueFd stdout_fd;  // read ends, non-blocking; not valid when not captured
  UniqueFd stderr_fd;
  Time exec_time{};
};

// No process came to be.
struct SpawnFailure {
  enum class Step { kPrepare, kClone, kHook, kExec };

  Step step = Step::kPrepare;
  int errno_value = 0;
  std::string message;  // what failed and what to do

  // There is no such program.
  bool not_found() const;
};

using SpawnResult = std::variant<SpawnedProcess, SpawnFailure>;

class Spawner {
 public:
  static Result<std::unique_ptr<Spawner>> Create();
  ~Spawner();
  Spawner(const Spawner&) = delete;
  Spawner& operator=(const Spawner&) = delete;

  SpawnResult Spawn(const SpawnRequest& request);

  // Lets this process open as many files as it may; those it starts keep the old limit, for
  // programs that walk over all possible descriptors or use select().
  void RaiseOwnFileLimit();

 private:
  Spawner() = default;

  UniqueFd null_;
  void* stack_ = nullptr;
  rlimit file_limit_{};
};

// "NAME=value" of this process.
std::vector<std::string> OwnEnvironment();

// The file of this process's program. Where another has taken its place since, that is its
// successor.
Result<std::string> OwnProgram();

// As gethostname has it; "localhost" where it has none.
std::string OwnHostName();

// The file that a shell would run for `name`: itself if it holds a slash (seen from
// `working_directory`), else the first executable one in `path` ("/usr/bin:/bin").
std::variant<std::string, SpawnFailure> FindExecutable(const std::string& name,
                                                       std::string_view path,
                                                       const std::string& working_directory);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_PROCESS_PROCESS_H_
