#include "worker/agent/rank_socket/ask_agent.h"

#include "base/net/unix_socket.h"
#include "worker/agent/rank_socket/progress_message.h"

namespace lockstep::agent {

Result<Json> AskAgent(const std::string& socket_path, const Json& question, Duration patience) {
  return AskUnix(socket_path, question, patience, kMaxProgressLine, "the agent");
}

}  // namespace lockstep::agent
