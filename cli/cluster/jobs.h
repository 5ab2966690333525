// TrainingJobs of an API server: reading and writing them. Errors are worded for people
// (Explain in connection.h).
#ifndef LOCKSTEP_CLI_CLUSTER_JOBS_H_
#define LOCKSTEP_CLI_CLUSTER_JOBS_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/cluster/connection.h"
#include "core/model/spec.h"
#include "core/status/status.h"
#include "core/text/node.h"
#include "operator/kube/views.h"

namespace lockstep::cli {

struct StoredJob {
  kube::ObjectMeta meta;
  core::TrainingJob job;
  core::JobStatus status;
  core::Node document;  // less managedFields
};

// What to say of a TrainingJob that is too large or broken.
Error Unreadable(const kube::ObjectMeta& job);

// Invalid: not a TrainingJob that this version can read.
Result<StoredJob> ReadStored(kube::JobView view);

// How many machines the job's gang has now, or will have.
int MachinesOf(const StoredJob& job);
bool HasEnded(const core::JobStatus& status);

class Jobs {
 public:
  explicit Jobs(Connection* connection) : connection_(connection) {}

  // NotFound names the nearest name that exists.
  Result<StoredJob> Get(const std::string& name);
  // By namespace and name. Standard error names those that cannot be read.
  Result<std::vector<StoredJob>> List(bool all_namespaces);
  // Conflict: there is one of its name.
  Result<StoredJob> Create(const core::TrainingJob& job, bool dry_run);
  // Merges `spec` (JSON) into the job's, if it is still the one that was read.
  Result<StoredJob> Change(const StoredJob& job, const std::string& spec);
  // That very one; with its pods gone first. It is not waited for.
  Status Delete(const StoredJob& job);

 private:
  Connection* connection_;
};

// Standard error names those that cannot be read.
Result<std::vector<kube::PodView>> ListPods(Connection& cluster, const std::string& job);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_JOBS_H_
