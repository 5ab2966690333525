// restart, suspend, resume, scale and delete.
#include <unistd.h>

#include <chrono>
#include <iostream>

#include "base/text/json.h"
#include "cli/cluster/commands.h"
#include "cli/cluster/job_watch.h"
#include "cli/cluster/jobs.h"
#include "cli/job/job_file.h"
#include "cli/run/restart.h"
#include "core/exit_codes.h"
#include "core/validate/validate.h"

namespace lockstep::cli {
namespace {

Error AlreadyEnded(const StoredJob& job) {
  return Error::Conflict("trainingjob " + job.meta.name + " has ended (" +
                         core::ToString(job.status.state) + "): submit it again, with --replace");
}

int ReportChange(const StoredJob& job, const std::string& what) {
  std::cout << "trainingjob " << job.meta.name << " in namespace " << job.meta.name_space << " "
            << what << "\n";
  return core::kExitSuccess;
}

// No other request has it: the time in nanoseconds, and this process.
std::string NewRequestId() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::to_string(duration_cast<std::chrono::nanoseconds>(now).count()) + "-" +
         std::to_string(getpid());
}

}  // namespace

Result<int> Run(Connection& cluster, const SuspendCommand& command) {
  Jobs jobs(&cluster);
  Result<StoredJob> job = jobs.Get(command.name);
  if (!job.ok()) return job.error();
  if (HasEnded(job->status)) return AlreadyEnded(*job);
  if (job->job.spec.suspend == command.suspend) {
    return ReportChange(*job, command.suspend ? "is suspended already" : "is not suspended");
  }
  Result<StoredJob> changed =
      jobs.Change(*job, command.suspend ? R"({"suspend":true})" : R"({"suspend":false})");
  if (!changed.ok()) return changed.error();
  return ReportChange(*changed, command.suspend ? "is being suspended" : "resumed");
}

Result<int> Run(Connection& cluster, const RestartCommand& command) {
  Jobs jobs(&cluster);
  Result<StoredJob> job = jobs.Get(command.name);
  if (!job.ok()) return job.error();
  if (HasEnded(job->status)) return AlreadyEnded(*job);
  if (job->job.spec.suspend) {
    return Error::Conflict("trainingjob " + job->meta.name +
                           " is suspended and runs nothing; `lockstep resume` starts it");
  }
  // What is null is removed: nothing of an earlier request stays.
  const auto text = [](const std::string& value) { return value.empty() ? Json() : Json(value); };
  const Json request = {{"id", NewRequestId()},
                        {"reason", text(command.reason)},
                        {"requestedBy", text(UserName())},
                        {"atCommit", command.at_commit ? Json(true) : Json()}};
  Result<StoredJob> changed = jobs.Change(*job, DumpJson(Json{{"restartRequest", request}}));
  if (!changed.ok()) return changed.error();
  return ReportChange(*changed, command.at_commit ? "restarts at its next commit" : "restarts");
}

Result<int> Run(Connection& cluster, const ScaleCommand& command) {
  Jobs jobs(&cluster);
  Result<StoredJob> job = jobs.Get(command.name);
  if (!job.ok()) return job.error();
  if (HasEnded(job->status)) return AlreadyEnded(*job);
  const int before = job->job.spec.num_machines;
  if (before == command.machines) {
    return ReportChange(*job, "has " + std::to_string(before) + " machines already");
  }
  core::TrainingJob scaled = job->job;
  scaled.spec.num_machines = command.machines;
  std::vector<core::Problem> problems = core::Validate(scaled, core::Target::kCluster);
  for (core::Problem& problem : problems) problem.line = 0;  // there is no file
  ShowProblems(problems, "trainingjob " + job->meta.name);
  if (core::HasErrors(problems)) return core::kExitUsage;
  const std::string machines = std::to_string(command.machines);
  Result<StoredJob> changed = jobs.Change(*job, R"({"numMachines":)" + machines + "}");
  if (!changed.ok()) return changed.error();
  return ReportChange(*changed,
                      "goes from " + std::to_string(before) + " to " + machines + " machines");
}

Result<int> Run(Connection& cluster, const DeleteCommand& command) {
  Jobs jobs(&cluster);
  std::vector<StoredJob> deleted;
  // All jobs are read first, so that a typing error in one name deletes none.
  for (const std::string& name : command.names) {
    Result<StoredJob> job = jobs.Get(name);
    if (!job.ok()) return job.error();
    deleted.push_back(std::move(*job));
  }
  for (const StoredJob& job : deleted) {
    const Status status = jobs.Delete(job);
    if (!status.ok()) return status.error();
  }
  for (const StoredJob& job : deleted) {
    if (command.wait) {
      const Status gone = WaitUntilGone(&cluster, job);
      if (!gone.ok()) return gone.error();
    }
    ReportChange(job, command.wait ? "deleted" : "is being deleted");
  }
  return core::kExitSuccess;
}

}  // namespace lockstep::cli
