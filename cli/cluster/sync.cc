// `lockstep sync NAME DIR`: code of this computer, on all machines of a job.
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/wake_timer.h"
#include "base/process/stop_signals.h"
#include "cli/cluster/code_sender.h"
#include "cli/cluster/commands.h"
#include "cli/cluster/jobs.h"
#include "cli/cluster/log_choice.h"
#include "cli/cluster/pod_exec.h"
#include "cli/run/restart.h"
#include "cli/say.h"
#include "cli/sync/code_scanner.h"
#include "cli/sync/code_watch.h"
#include "core/exit_codes.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr Duration kPause = seconds(2);  // between looks for machine 0

// A folder for the contents of files as they were hashed, gone at the end.
class Stage {
 public:
  static Result<std::unique_ptr<Stage>> Make() {
    std::error_code none;
    std::string path = (fs::temp_directory_path(none) / "lockstep-sync-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) return ErrnoError("cannot make " + path, errno);
    return std::make_unique<Stage>(path);
  }
  explicit Stage(std::string path) : path_(std::move(path)) {}
  ~Stage() {
    std::error_code none;
    fs::remove_all(path_, none);
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class Syncing final : CodeSender::Owner {
 public:
  Syncing(EventLoop* loop, Connection* cluster, const ClusterAddress& where,
          const SyncCommand& command, const std::string& folder, const std::string& stage,
          Spawner* spawner)
      : loop_(loop),
        cluster_(cluster),
        where_(where),
        command_(command),
        scanner_(folder, stage, {}),
        sender_(loop, spawner, &scanner_,
                {.by = UserName(), .stage = stage, .watch = command.watch}, this),
        again_(loop, [this] { Connect(); }) {}

  Result<int> Run() {
    if (Status scanned = sender_.Scan(); !scanned.ok()) return scanned.error();
    if (sender_.scan().manifest.files.empty()) {
      return Error::NotFound(scanner_.folder() + " has no files to sync: all are ignored");
    }
    SayLeftOut();
    if (command_.watch) {
      Result<std::unique_ptr<CodeWatch>> watch = CodeWatch::Open(loop_, [this] { OnEdit(); });
      if (!watch.ok()) return watch.error();
      watch_ = std::move(*watch);
      if (Status watched = Watch(); !watched.ok()) return watched.error();
    }
    // Within the loop, which it may stop.
    loop_->Post([this] { Connect(); });
    loop_->Run();
    watch_.reset();
    if (error_) return *error_;
    return code_;
  }

 private:
  Status Watch() { return watch_->Watch(scanner_.folder(), sender_.scan().manifest.Folders()); }

  void SayLeftOut() {
    for (const std::string& line : sender_.scan().left_out) {
      if (said_.insert(line).second) Say("not synced: " + line);
    }
  }

  void OnEdit() {
    const Status sent = sender_.OnEdit();
    if (!sent.ok()) return Say(sent.error().message + "; the job keeps the code that it has");
    SayLeftOut();
    if (const Status watched = Watch(); !watched.ok()) Say(watched.error().message);
  }

  void End(Result<int> end) {
    if (end.ok()) {
      code_ = *end;
    } else {
      error_ = end.error();
    }
    loop_->Stop();
  }

  void Connect() {
    Result<StoredJob> job = Jobs(cluster_).Get(command_.name);
    if (!job.ok()) return Away(job.error(), job.error().kind != ErrorKind::kUnavailable);
    if (HasEnded(job->status)) {
      return End(Error::Conflict("trainingjob " + command_.name + " has ended (" +
                                 core::ToString(job->status.state) + ")"));
    }
    if (!job->job.spec.sync) {
      return End(Error::Invalid("trainingjob " + command_.name +
                                " does not allow sync: create it with spec.sync: {}"));
    }
    if (job->job.spec.suspend) {
      return Away(Error::Conflict("trainingjob " + command_.name +
                                  " is suspended and has no machines; `lockstep resume` starts it, "
                                  "and it then waits for its code"));
    }
    Result<std::vector<kube::PodView>> pods = ListPods(*cluster_, command_.name);
    if (!pods.ok()) return Away(pods.error());
    std::vector<const kube::PodView*> list;
    for (const kube::PodView& pod : *pods) list.push_back(&pod);
    const PodsByMachine current = CurrentPods(list, 0);
    if (current.empty()) return Away(Error::Unavailable("machine 0 has no pod"));
    const kube::PodView& pod = *current.begin()->second;
    if (pod.worker.kind != kube::ContainerState::Kind::kRunning) {
      return Away(Error::Unavailable("machine 0 does not run; it waits for " + WaitsFor(pod)));
    }
    away_.clear();
    sender_.Start(AskPod(where_, pod, {"--sync-receive"}, /*with_stdin=*/true));
  }

  // Who watches waits for machine 0.
  void Away(const Error& why, bool for_good = false) {
    if (!command_.watch || for_good) return End(why);
    if (why.message != away_) Say(why.message + "; waiting");
    away_ = why.message;
    again_.WakeAt(BootTime() + kPause);
  }

  void OnCodeRuns() override {
    if (!command_.watch) End(core::kExitSuccess);
  }
  void OnRefused(const std::string& why) override {
    if (!command_.watch) return End(Error::Conflict(why));
    Say("the code was not taken: " + why);
  }
  void OnLineEnded(const std::string& why) override {
    const bool old = why.find("unknown arguments") != std::string::npos;
    if (old) {
      return End(
          Error::Invalid("the job's agents are older than kubectl lockstep sync; create the "
                         "job again"));
    }
    Away(Error::Unavailable("machine 0's agent: " + why));
  }

  EventLoop* loop_;
  Connection* cluster_;
  const ClusterAddress& where_;
  const SyncCommand& command_;
  CodeScanner scanner_;
  CodeSender sender_;
  WakeTimer again_;
  std::unique_ptr<CodeWatch> watch_;
  std::set<std::string> said_;  // of what is left out
  std::string away_;            // why machine 0 was not reached, as last said
  int code_ = core::kExitSuccess;
  std::optional<Error> error_;
};

}  // namespace

Result<int> Sync(const ClusterAddress& where, const SyncCommand& command) {
  std::error_code error;
  const std::string folder = fs::canonical(command.folder, error).string();
  if (error || !fs::is_directory(folder)) {
    return Error::Invalid(command.folder + " is not a folder");
  }
  Result<std::unique_ptr<Connection>> cluster = Connection::Open(where);
  if (!cluster.ok()) return cluster.error();
  Result<std::unique_ptr<Stage>> stage = Stage::Make();
  if (!stage.ok()) return stage.error();
  Result<std::unique_ptr<Spawner>> spawner = Spawner::Create();
  if (!spawner.ok()) return spawner.error();
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::Create();
  if (!loop.ok()) return loop.error();
  signal(SIGPIPE, SIG_IGN);
  for (const int number : kStopSignals) {
    (*loop)->OnSignal(number, [raw = loop->get()] { raw->Stop(); });
  }
  Syncing syncing(loop->get(), cluster->get(), where, command, folder, (*stage)->path(),
                  spawner->get());
  return syncing.Run();
}

}  // namespace lockstep::cli
