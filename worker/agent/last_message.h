// LastMessage: where an agent leaves what it ends with: the socket of whoever started it, the pod's
// termination message, or both. The room in the file is taken when the agent starts, because the
// user's program may fill the file system before the end.
#ifndef LOCKSTEP_WORKER_AGENT_LAST_MESSAGE_H_
#define LOCKSTEP_WORKER_AGENT_LAST_MESSAGE_H_

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace lockstep::agent {

class LastMessage {
 public:
  // `starter` may be invalid and `path` empty. Kubernetes made the file: it is written in place.
  LastMessage(UniqueFd starter, std::string path);

  // To both, whatever comes of the first. The first problem.
  Status Write(std::string_view text) const;

 private:
  Status WriteFile(std::string_view text) const;

  UniqueFd starter_;
  std::string path_;
  UniqueFd file_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_LAST_MESSAGE_H_
