// Jobs as `list` and `status` print them.
#ifndef LOCKSTEP_CLI_CLUSTER_SHOW_H_
#define LOCKSTEP_CLI_CLUSTER_SHOW_H_

#include <string>
#include <vector>

#include "cli/cluster/jobs.h"
#include "cli/cluster_command.h"

namespace lockstep::cli {

// `output`: "json", else YAML.
std::string DocumentOf(const StoredJob& job, const std::string& output);
// A TrainingJobList.
std::string DocumentOf(const std::vector<StoredJob>& jobs, const std::string& output);

// On standard output, as `command` asks; `none` on standard error if there is no job.
void ShowList(const std::vector<StoredJob>& jobs, const ListCommand& command,
              const std::string& none);
void ShowStatus(const StoredJob& job, const StatusCommand& command);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_SHOW_H_
