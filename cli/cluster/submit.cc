#include <iostream>
#include <optional>
#include <utility>
#include <vector>

#include "cli/cluster/commands.h"
#include "cli/cluster/job_watch.h"
#include "cli/cluster/jobs.h"
#include "cli/job/job_file.h"
#include "cli/say.h"
#include "core/exit_codes.h"

namespace lockstep::cli {
namespace {

// The jobs of all files. If one is invalid, its problems are printed and nothing is returned.
Result<std::optional<std::vector<core::TrainingJob>>> LoadAll(
    const std::vector<std::string>& files) {
  std::vector<core::TrainingJob> jobs;
  for (const std::string& file : files) {
    Result<LoadedJob> loaded = LoadJob(file, {}, core::Target::kCluster, std::nullopt);
    if (!loaded.ok()) return Error::Invalid(loaded.error().message);
    ShowProblems(loaded->problems, loaded->file);
    if (loaded->ok()) jobs.push_back(std::move(loaded->job));
  }
  if (jobs.size() < files.size()) return std::optional<std::vector<core::TrainingJob>>();
  return std::optional(std::move(jobs));
}

Error TwoNamespaces(const core::Metadata& job, const std::string& other) {
  return Error::Invalid("trainingjob " + job.name + " is for namespace " + job.name_space +
                        ", not " + other + ": submit it separately, with -n " + job.name_space);
}

// The one namespace that -n or the files name; "" when none does.
Result<std::string> NamespaceOf(const ClusterAddress& where,
                                const std::vector<core::TrainingJob>& jobs) {
  std::string name_space = where.name_space;
  for (const core::TrainingJob& job : jobs) {
    const std::string& own = job.metadata.name_space;
    if (own.empty()) continue;
    if (!name_space.empty() && own != name_space) return TwoNamespaces(job.metadata, name_space);
    name_space = own;
  }
  return name_space;
}

// Deletes the existing job of the same name, with --replace.
Status MakeRoom(Connection& cluster, const std::string& name) {
  Jobs jobs(&cluster);
  Result<StoredJob> old = jobs.Get(name);
  if (!old.ok()) return old.error().kind == ErrorKind::kNotFound ? Status() : old.error();
  Say("deleting trainingjob " + name + "; waiting until its pods are gone");
  Status deleted = jobs.Delete(*old);
  return deleted.ok() ? WaitUntilGone(&cluster, *old) : deleted;
}

Status SubmitOne(Connection& cluster, const SubmitCommand& command, core::TrainingJob job) {
  const std::string& name = job.metadata.name;
  job.metadata.name_space = cluster.name_space();
  if (command.replace && !command.dry_run) {
    Status room = MakeRoom(cluster, name);
    if (!room.ok()) return room;
  }
  Result<StoredJob> made = Jobs(&cluster).Create(job, command.dry_run);
  if (!made.ok() && made.error().kind == ErrorKind::kConflict) {
    return Error::Conflict("there is a trainingjob " + name + " in namespace " +
                           cluster.name_space() +
                           ": delete it, give --replace, or choose another name");
  }
  if (!made.ok()) return made.error();
  const core::Spec& spec = job.spec;
  std::cout << "trainingjob " << name << " in namespace " << cluster.name_space()
            << (command.dry_run ? " would be created: " : " created: ") << spec.num_machines
            << (spec.num_machines == 1 ? " machine" : " machines") << " x "
            << spec.processes_per_machine << " = world size " << core::WorldSize(spec) << "\n";
  if (command.dry_run) return {};
  const std::string place = name + " -n " + cluster.name_space();
  std::cout << "  lockstep status " << place << " --watch\n  lockstep logs " << place << " -f\n";
  if (spec.suspend) std::cout << "  lockstep resume " << place << "   # it waits for this\n";
  return {};
}

}  // namespace

Result<int> Submit(const ClusterAddress& where, const SubmitCommand& command) {
  Result<std::optional<std::vector<core::TrainingJob>>> jobs = LoadAll(command.files);
  if (!jobs.ok()) return jobs.error();
  if (!*jobs) return core::kExitUsage;
  Result<std::string> name_space = NamespaceOf(where, **jobs);
  if (!name_space.ok()) return name_space.error();
  ClusterAddress there = where;
  there.name_space = *name_space;
  Result<std::unique_ptr<Connection>> cluster = Connection::Open(there);
  if (!cluster.ok()) return cluster.error();
  for (core::TrainingJob& job : **jobs) {
    Status submitted = SubmitOne(**cluster, command, std::move(job));
    if (!submitted.ok()) return submitted.error();
  }
  return core::kExitSuccess;
}

}  // namespace lockstep::cli
