// `lockstep`, the command line: one App with a command a file in cli/commands/.
#ifndef LOCKSTEP_CLI_COMMANDS_APP_H_
#define LOCKSTEP_CLI_COMMANDS_APP_H_

#include <CLI/CLI.hpp>
#include <memory>

#include "base/version.h"
#include "cli/cluster_command.h"

namespace lockstep::cli {

struct Invocation;

// The program with all its commands. What a command returned stands in `invocation->exit_code`
// after `app->parse(...)`.
std::unique_ptr<CLI::App> MakeApp(Invocation* invocation);

// Parses and runs, commands on clusters by `on_cluster`; returns an exit code of
// docs/reference/cli.md.
int Main(int argc, char** argv, RunOnCluster on_cluster);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMANDS_APP_H_
