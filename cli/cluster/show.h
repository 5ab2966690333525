// Jobs as documents: -o json and -o yaml.
#ifndef LOCKSTEP_CLI_CLUSTER_SHOW_H_
#define LOCKSTEP_CLI_CLUSTER_SHOW_H_

#include <string>
#include <vector>

#include "cli/cluster/jobs.h"

namespace lockstep::cli {

// `output`: "json", else YAML.
std::string DocumentOf(const StoredJob& job, const std::string& output);
// A TrainingJobList.
std::string DocumentOf(const std::vector<StoredJob>& jobs, const std::string& output);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_SHOW_H_
