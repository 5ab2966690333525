#include "cli/tune/trial.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/file.h"
#include "base/process/process.h"
#include "base/text/json.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "cli/job/job_file.h"
#include "core/model/json.h"

namespace lockstep::cli {
namespace {

constexpr Duration kLook = milliseconds(100);
constexpr Duration kLeave = seconds(30);  // from SIGTERM to SIGKILL of the run
constexpr int kMostTimes = 10;            // as long as asked for, while steps are too rare
constexpr size_t kMaxReport = size_t{256} << 20;

// What a file of JSON holds; null while it is not there or not whole.
Json ReadJson(const std::string& path) {
  const Result<std::string> text = ReadTextFile(path, kMaxReport);
  if (!text.ok()) return nullptr;
  Json json = Json::parse(*text, nullptr, false);
  return json.is_discarded() ? Json() : json;
}

std::string Text(const Json& json, const char* name) {
  const auto found = json.is_object() ? json.find(name) : json.end();
  return json.is_object() && found != json.end() && found->is_string() ? found->get<std::string>()
                                                                       : std::string();
}

// The child, which is killed if this is left early.
class ChildRun {
 public:
  explicit ChildRun(SpawnedProcess process) : process_(std::move(process)) {}
  ChildRun(const ChildRun&) = delete;
  ChildRun& operator=(const ChildRun&) = delete;
  ~ChildRun() {
    if (ended_) return;
    Signal(SIGKILL);
    waitpid(process_.pid, nullptr, 0);
  }

  void Signal(int number) const {
    syscall(SYS_pidfd_send_signal, process_.pidfd.get(), number, nullptr, 0);
  }
  // True once it has ended.
  bool WaitFor(Duration most) {
    if (ended_) return true;
    pollfd wait{process_.pidfd.get(), POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(most / milliseconds(1))) <= 0) return false;
    waitpid(process_.pid, &code_, 0);
    ended_ = true;
    return true;
  }
  bool ended() const { return ended_; }

 private:
  SpawnedProcess process_;
  int code_ = 0;
  bool ended_ = false;
};

Result<SpawnedProcess> Start(Spawner& spawner, const TrialRequest& request) {
  Result<std::string> program = OwnProgram();
  if (!program.ok()) return program.error();
  const std::string job = request.folder + "/job.json";
  if (Status written = WriteFileAtomically(job, core::ToJson(request.job)); !written.ok()) {
    return written.error();
  }
  SpawnRequest spawn;
  spawn.path = *program;
  spawn.argv = {"lockstep",   "run",
                job,          "--local",
                "--no-table", "--no-hints",
                "--report",   request.folder + "/report.json",
                "--status",   request.folder + "/status.json"};
  spawn.env = OwnEnvironment();
  // Of a failed trial its user wants to see the last lines.
  const UniqueFd log(
      open((request.folder + "/output").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND, 0600));
  if (!log.valid()) return ErrnoError("making a file in " + request.folder, errno);
  spawn.capture_stdout = spawn.capture_stderr = false;
  spawn.hook_data = const_cast<UniqueFd*>(&log);
  spawn.hook = [](void* data) noexcept -> int {
    const int fd = static_cast<const UniqueFd*>(data)->get();
    return dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0 ? errno : 0;
  };
  SpawnResult result = spawner.Spawn(spawn);
  if (const auto* failure = std::get_if<SpawnFailure>(&result)) {
    return Error::Internal(failure->message);
  }
  return std::move(std::get<SpawnedProcess>(result));
}

// Waits until the stretch is over, or the run, or shows no step.
Status Watch(ChildRun& run, const TrialRequest& request, const std::atomic<bool>& interrupted) {
  const Time patience = BootTime() + request.patience;
  std::optional<Time> until;
  while (!run.WaitFor(kLook)) {
    if (interrupted) return Error::Unavailable("interrupted");
    const Time now = BootTime();
    if (until) {
      if (now >= *until) return {};
      continue;
    }
    const Json status = ReadJson(request.folder + "/status.json");
    if (status.is_object() && status.contains("progress")) {
      until = now + request.limits.warm_up + request.limits.length;
    } else if (now >= patience) {
      return Error::Timeout("no step is known after " +
                            std::to_string(request.patience / seconds(1)) +
                            " s: docs/guides/progress.md");
    }
  }
  return {};
}

}  // namespace

Result<Stretch> RunTrial(const TrialRequest& request, const std::atomic<bool>& interrupted) {
  Result<std::unique_ptr<Spawner>> spawner = Spawner::Create();
  if (!spawner.ok()) return spawner.error();
  Result<SpawnedProcess> started = Start(**spawner, request);
  if (!started.ok()) return started.error();
  ChildRun run(std::move(*started));
  const Status watched = Watch(run, request, interrupted);
  const bool ended = run.ended();
  run.Signal(SIGTERM);
  run.WaitFor(kLeave);
  if (!watched.ok()) return watched.error();
  const Json report = ReadJson(request.folder + "/report.json");
  if (!report.is_object() || !report.contains("view")) {
    return Error::Invalid("the run left no report; its output is in " + request.folder);
  }
  if (ended && report.value("exitCode", 1) != 0) return Error::Invalid(Text(report, "reason"));
  const Json& view = report["view"];
  const Json status = view.value("status", Json::object());
  const std::string source = Text(status.value("progress", Json::object()), "source");
  const bool reported = source.empty() || source == "Reports";
  return MeasureStretch(view.value("series", Json::object()), reported, request.limits);
}

}  // namespace lockstep::cli
