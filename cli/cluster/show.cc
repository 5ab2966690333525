#include "cli/cluster/show.h"

#include <unistd.h>

#include <iostream>
#include <optional>

#include "base/loop/event_loop.h"
#include "base/text/json.h"
#include "cli/cluster/commands.h"
#include "cli/cluster/job_text.h"
#include "cli/cluster/job_watch.h"
#include "cli/cluster/why_text.h"
#include "core/exit_codes.h"
#include "core/text/text.h"

namespace lockstep::cli {
namespace {

constexpr const char* kClear = "\x1b[H\x1b[2J";
constexpr Duration kRefresh = seconds(1);

std::string Write(const core::Node& document, const std::string& output) {
  if (output != "json") return core::WriteYaml(document);
  return DumpJson(ParseOrderedJson(core::WriteJson(document)), 2) + "\n";
}

// On a terminal the whole text again and again, elsewhere a line for each change.
class Watcher {
 public:
  Watcher(EventLoop* loop, std::string name) : loop_(loop), name_(std::move(name)) {}

  void OnJob(const StoredJob* job) {
    if (job == nullptr) return End(Error::NotFound("trainingjob " + name_ + " is gone"));
    job_ = *job;
    Print();
    if (HasEnded(job->status)) {
      End(job->status.state == core::JobState::kSucceeded ? core::kExitSuccess : core::kExitFailed);
    }
  }

  void Refresh() {
    if (!terminal_) return;
    if (job_) Print();
    loop_->StartTimer(BootTime() + kRefresh, [this] { Refresh(); });
  }

  void End(Result<int> outcome) {
    outcome_ = std::move(outcome);
    loop_->Stop();
  }

  const Result<int>& outcome() const { return outcome_; }

 private:
  void Print() {
    if (terminal_) {
      std::cout << kClear << StatusText(*job_, WallNow()) << std::flush;
      return;
    }
    std::string line = StatusLine(*job_);
    if (line == shown_) return;
    std::cout << FormatWallTime(WallNow()) << "  " << line << "\n" << std::flush;
    shown_ = std::move(line);
  }

  EventLoop* loop_;
  const std::string name_;
  const bool terminal_ = isatty(STDOUT_FILENO) == 1;
  std::optional<StoredJob> job_;
  std::string shown_;
  Result<int> outcome_ = core::kExitSuccess;
};

Result<int> Watch(Connection& cluster, const std::string& name) {
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::Create();
  if (!loop.ok()) return loop.error();
  Watcher watcher(loop->get(), name);
  const JobWatch watch(loop->get(), &cluster, {cluster.name_space(), name},
                       {.on_job = [&](const StoredJob* job) { watcher.OnJob(job); },
                        .on_hopeless = [&](const Error& error) { watcher.End(error); }});
  watcher.Refresh();
  (*loop)->Run();
  return watcher.outcome();
}

}  // namespace

std::string DocumentOf(const StoredJob& job, const std::string& output) {
  return Write(job.document, output);
}

std::string DocumentOf(const std::vector<StoredJob>& jobs, const std::string& output) {
  core::Node list = core::Node::Map();
  list.Add("apiVersion", core::Node::String(core::kApiVersion));
  list.Add("kind", core::Node::String("TrainingJobList"));
  core::Node& items = list.Add("items", core::Node::List());
  for (const StoredJob& job : jobs) items.Append(job.document);
  return Write(list, output);
}

void ShowList(const std::vector<StoredJob>& jobs, const ListCommand& command,
              const std::string& none) {
  const bool wide = command.output == "wide";
  if (!wide && command.output != "table") {
    std::cout << DocumentOf(jobs, command.output);
  } else if (jobs.empty()) {
    std::cerr << none << "\n";
  } else {
    std::cout << ListText(jobs, {.name_space = command.all_namespaces, .wide = wide}, WallNow());
  }
}

void ShowStatus(const StoredJob& job, const StatusCommand& command) {
  std::cout << (command.output == "text" ? StatusText(job, WallNow())
                                         : DocumentOf(job, command.output));
}

Result<int> Run(Connection& cluster, const ListCommand& command) {
  Result<std::vector<StoredJob>> jobs = Jobs(&cluster).List(command.all_namespaces);
  if (!jobs.ok()) return jobs.error();
  ShowList(
      *jobs, command,
      "no trainingjobs" + (command.all_namespaces ? "" : " in namespace " + cluster.name_space()));
  return core::kExitSuccess;
}

Result<int> Run(Connection& cluster, const StatusCommand& command) {
  Result<StoredJob> job = Jobs(&cluster).Get(command.name);
  if (!job.ok()) return job.error();
  if (command.watch) return Watch(cluster, command.name);
  ShowStatus(*job, command);
  return core::kExitSuccess;
}

Result<int> Run(Connection& cluster, const WhyCommand& command) {
  Result<StoredJob> job = Jobs(&cluster).Get(command.name);
  if (!job.ok()) return job.error();
  std::cout << WhyText(*job, "-n " + job->meta.name_space);
  return core::kExitSuccess;
}

}  // namespace lockstep::cli
