// A question of another process to an agent, on its socket (rank_socket.h).
#ifndef LOCKSTEP_WORKER_AGENT_RANK_SOCKET_ASK_AGENT_H_
#define LOCKSTEP_WORKER_AGENT_RANK_SOCKET_ASK_AGENT_H_

#include <string>

#include "base/result.h"
#include "base/text/json.h"
#include "base/time.h"

namespace lockstep::agent {

inline constexpr Duration kNoPatience{};  // as long as it takes

// The answer, an object. Unavailable: there is no agent there, it goes, or it is silent for
// `patience`.
Result<Json> AskAgent(const std::string& socket_path, const Json& question, Duration patience);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_RANK_SOCKET_ASK_AGENT_H_
