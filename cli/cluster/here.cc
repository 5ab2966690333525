#include "cli/cluster/here.h"

#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "base/text/json.h"
#include "cli/cluster/jobs.h"
#include "cli/cluster/show.h"
#include "cli/cluster/why_text.h"
#include "cli/run/run_server.h"
#include "cli/say.h"
#include "core/exit_codes.h"
#include "core/text/limited_text.h"
#include "worker/place/run_folder.h"

namespace lockstep::cli {
namespace {

Error Strange(const std::string& job) {
  return Error::Invalid("run " + job + " answers what this version of lockstep cannot read");
}

Result<StoredJob> AskForJob(const place::RunUnderWay& run) {
  const Result<Json> answer = AskRun(run.folder, {{"look", Json::object()}});
  if (!answer.ok()) return answer.error();
  const Json text = answer->value("document", Json());
  if (!text.is_string()) return Strange(run.job);
  kube::JobView view;
  view.meta.name = run.job;
  view.json = text.get<std::string>();
  Result<StoredJob> job = ReadStored(std::move(view));
  if (job.ok() && job->status.timings.created) job->meta.created = *job->status.timings.created;
  return job;
}

// Absent if no run has that name.
std::optional<Result<place::RunUnderWay>> FindRun(const std::string& name) {
  std::vector<place::RunUnderWay> runs = place::RunsUnderWay();
  std::erase_if(runs, [&](const place::RunUnderWay& run) { return run.job != name; });
  if (runs.empty()) return std::nullopt;
  if (runs.size() == 1) return runs.front();
  return Error::Conflict(std::to_string(runs.size()) + " runs on this computer have the name " +
                         name + "; start runs with --name to tell them apart");
}

// Calls `show` with the run's job.
template <typename Show>
std::optional<Result<int>> WithJob(const std::string& name, Show show) {
  const std::optional<Result<place::RunUnderWay>> run = FindRun(name);
  if (!run) return std::nullopt;
  if (!run->ok()) return run->error();
  const Result<StoredJob> job = AskForJob(**run);
  if (!job.ok()) return job.error();
  show(*job);
  return core::kExitSuccess;
}

Result<int> ShowLines(const place::RunUnderWay& run, const LogsCommand& command) {
  if (command.follow) {
    return Error::Invalid(
        "--follow is for jobs on a cluster; `lockstep run` itself prints what "
        "the processes of run " +
        run.job + " print");
  }
  Json asked = Json::object();
  if (command.rank) asked["rank"] = *command.rank;
  if (command.machine) asked["machine"] = *command.machine;
  if (command.tail) asked["lines"] = *command.tail;
  const Result<Json> answer = AskRun(run.folder, {{"log", asked}});
  if (!answer.ok()) return answer.error();
  const Json lines = answer->value("lines", Json());
  const Json processes = answer->value("processes", Json());
  if (!lines.is_array() || !processes.is_number_unsigned() || processes == Json(0U)) {
    return Strange(run.job);
  }
  for (const Json& line : lines) {
    const Json rank = line.is_object() ? line.value("r", Json()) : Json();
    const Json text = line.is_object() ? line.value("m", Json()) : Json();
    if (!rank.is_number_unsigned() || !text.is_string()) return Strange(run.job);
    const auto number = rank.get<uint64_t>();
    std::cout << "[m" << number / processes.get<uint64_t>() << " r" << number << "] "
              << core::Printable(text.get<std::string>()) << "\n";
  }
  const Json skipped = answer->value("skipped", Json());
  if (skipped.is_number_unsigned() && skipped != Json(0U)) {
    Say(std::to_string(skipped.get<uint64_t>()) + " earlier lines are not shown");
  }
  return core::kExitSuccess;
}

}  // namespace

Result<int> ListHere(const ListCommand& command) {
  std::vector<StoredJob> jobs;
  for (const place::RunUnderWay& run : place::RunsUnderWay()) {
    if (run.job.empty()) continue;
    Result<StoredJob> job = AskForJob(run);
    if (job.ok()) {
      jobs.push_back(std::move(*job));
    } else {
      Say("left out: run " + run.job + ": " + job.error().message);
    }
  }
  ShowList(jobs, command, "no `lockstep run` of yours is under way on this computer");
  return core::kExitSuccess;
}

std::optional<Result<int>> LookHere(const StatusCommand& command) {
  if (command.watch && FindRun(command.name)) {
    return Error::Invalid("--watch is for jobs on a cluster; `lockstep run` itself shows how run " +
                          command.name + " goes on");
  }
  return WithJob(command.name, [&](const StoredJob& job) { ShowStatus(job, command); });
}

std::optional<Result<int>> LookHere(const LogsCommand& command) {
  const std::optional<Result<place::RunUnderWay>> run = FindRun(command.name);
  if (!run) return std::nullopt;
  if (!run->ok()) return run->error();
  return ShowLines(**run, command);
}

std::optional<Result<int>> LookHere(const WhyCommand& command) {
  return WithJob(command.name, [](const StoredJob& job) { std::cout << WhyText(job, ""); });
}

}  // namespace lockstep::cli
