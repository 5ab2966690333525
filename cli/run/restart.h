// `lockstep restart` of a run on this computer.
#ifndef LOCKSTEP_CLI_RUN_RESTART_H_
#define LOCKSTEP_CLI_RUN_RESTART_H_

#include <optional>
#include <string>

#include "cli/cluster_command.h"

namespace lockstep::cli {

// The name by which this user asks: $USER, $LOGNAME, else "uid N".
std::string UserName();

// Asks the run that `command` names, or the only one. Absent if no run of this user has that name.
std::optional<int> RestartHere(const RestartCommand& command);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_RESTART_H_
