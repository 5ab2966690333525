// AgentLink: the trainer's connection to its machine's agent (docs/reference/protocol.md,
// "progress"): JSON lines over the Unix socket LOCKSTEP_SOCKET. worker/python/lockstep.py does the
// same for users' programs.
#ifndef LOCKSTEP_WORKER_TRAINER_LINK_AGENT_LINK_H_
#define LOCKSTEP_WORKER_TRAINER_LINK_AGENT_LINK_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/unique_fd.h"

namespace lockstep::trainer {

inline constexpr size_t kMaxAgentLine = size_t{64} * 1024;  // bytes, as the agent has it

// To its socket; `flags`: of the new socket. Not valid, with errno.
UniqueFd ConnectToAgent(const std::string& path, int flags);

// Tells it where the rank stood when its collectives failed, for the generation's failure. Does not
// wait and never fails. From any thread.
void TellPlace(const std::string& path, int rank, const std::string& generation,
               const std::string& place);

class AgentLink {
 public:
  // An empty path: there is no agent. Report() then does nothing. `generation`: of what is
  // committed; a process that outlives generations must say it.
  AgentLink(std::string socket_path, int rank, std::string generation = "");
  AgentLink(const AgentLink&) = delete;
  AgentLink& operator=(const AgentLink&) = delete;

  bool exists() const { return !path_.empty(); }

  // Numbers by name; those that are not finite are left out. Never waits and never fails: a line
  // that can't be sent at once is dropped. From one thread.
  void Report(const std::vector<std::pair<std::string_view, double>>& values);

  enum class Store : uint8_t { kFolder, kMemory };
  // Asks whether the checkpoint of this name, complete and synced in LOCKSTEP_CHECKPOINT_DIR, may
  // count. Returns the path to move it to. kConflict: it may not, since this generation is over;
  // kUnavailable or kTimeout: no answer. From any thread. In memory it is this machine's part, the
  // answer comes when every machine has asked, and on a yes the part is at the path already.
  Result<std::string> Commit(const std::string& name, Duration timeout,
                             Store store = Store::kFolder);

 private:
  bool Connected();
  void Flush();

  const std::string path_;
  const int rank_;
  const std::string generation_;
  UniqueFd socket_;
  std::string unsent_;  // of a line that was sent in part
  Time next_connect_{};
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_LINK_AGENT_LINK_H_
