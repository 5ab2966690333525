// The commands on clusters, one function each: they print what they did and return the exit code,
// or the error that stopped them.
#ifndef LOCKSTEP_CLI_CLUSTER_COMMANDS_H_
#define LOCKSTEP_CLI_CLUSTER_COMMANDS_H_

#include "base/result.h"
#include "cli/cluster/connection.h"
#include "cli/cluster_command.h"

namespace lockstep::cli {

Result<int> Run(Connection& cluster, const ListCommand& command);
Result<int> Run(Connection& cluster, const StatusCommand& command);
Result<int> Run(Connection& cluster, const LogsCommand& command);
Result<int> Run(Connection& cluster, const WhyCommand& command);
Result<int> Run(Connection& cluster, const RestartCommand& command);
Result<int> Run(Connection& cluster, const SuspendCommand& command);
Result<int> Run(Connection& cluster, const ScaleCommand& command);
Result<int> Run(Connection& cluster, const DeleteCommand& command);
// By kubectl, in each pod: who may exec there may trace what runs there, too.
Result<int> Debug(const ClusterAddress& where, const DebugCommand& command);
// By kubectl, into machine 0's pod: who may exec there may run any code there.
Result<int> Sync(const ClusterAddress& where, const SyncCommand& command);
// Serves the page of a job, or of all jobs, until a signal asks for the end.
Result<int> Ui(const ClusterAddress& where, const UiCommand& command);
// Validates the files before it looks for a cluster.
Result<int> Submit(const ClusterAddress& where, const SubmitCommand& command);

// Runs any of them, and prints its error.
int RunClusterCommand(const ClusterCommand& command);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_COMMANDS_H_
