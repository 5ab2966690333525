// What the `lockstep run`s of this user on this computer tell about themselves
// (cli/run/run_server.h).
#ifndef LOCKSTEP_CLI_CLUSTER_HERE_H_
#define LOCKSTEP_CLI_CLUSTER_HERE_H_

#include <optional>

#include "base/result.h"
#include "cli/cluster_command.h"

namespace lockstep::cli {

// Standard error names the runs that do not answer.
Result<int> ListHere(const ListCommand& command);

// Absent if no run has that name. Conflict: several have it. Invalid: --watch and --follow, which
// are for jobs on a cluster.
std::optional<Result<int>> LookHere(const StatusCommand& command);
std::optional<Result<int>> LookHere(const LogsCommand& command);
std::optional<Result<int>> LookHere(const WhyCommand& command);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_HERE_H_
