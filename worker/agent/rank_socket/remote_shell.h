// The remote shell that a launcher is given in place of ssh: the agent's program in another mode.
// It asks the agent of machine 0, on the socket that every process of the gang may ask, to have the
// words run on another machine, waits for their end and exits as they did. Standard input is not
// carried over, and what they write is in the logs of their machine.
#ifndef LOCKSTEP_WORKER_AGENT_RANK_SOCKET_REMOTE_SHELL_H_
#define LOCKSTEP_WORKER_AGENT_RANK_SOCKET_REMOTE_SHELL_H_

#include <string>
#include <vector>

#include "base/result.h"

namespace lockstep::agent {

inline constexpr char kRemoteShellArgument[] = "--rsh";

// What a launcher asks of ssh: `[options] HOST WORDS...`.
struct RemoteCommand {
  std::string host;     // without a user before it
  std::string command;  // the words with blanks between, for a shell to read, as ssh does it
};
// Options are ssh's, and mean nothing here. Of the words --daemonize is left out: a daemon that
// leaves the process it was started as would look as if it had ended.
Result<RemoteCommand> ParseRemoteCommand(const std::vector<std::string>& arguments);

// lockstep-agent --rsh SOCKET GENERATION [options] HOST WORDS...; the exit code.
int RemoteShellMain(int argc, char** argv);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_RANK_SOCKET_REMOTE_SHELL_H_
