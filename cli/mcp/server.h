// `lockstep mcp`: serves the tools on standard input and output until the input ends.
#ifndef LOCKSTEP_CLI_MCP_SERVER_H_
#define LOCKSTEP_CLI_MCP_SERVER_H_

#include "base/time.h"
#include "cli/cluster_command.h"

namespace lockstep::cli::mcp {

struct ServerOptions {
  ClusterAddress where{};
  bool allow_write = false;
  Duration timeout = seconds(60);  // of each command
};

// The exit code.
int Serve(const ServerOptions& options);

}  // namespace lockstep::cli::mcp

#endif  // LOCKSTEP_CLI_MCP_SERVER_H_
