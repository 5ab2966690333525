// What the init container of a pod runs: copies this program's own file into a folder that the
// user's container mounts, as FOLDER/lockstep-agent, mode 0555, and lockstep-pmix and lockstep-s3,
// if they are beside it. Under each name stands a whole file or none; one that stands there, even
// one that runs, is replaced.
#ifndef LOCKSTEP_WORKER_AGENT_INSTALL_H_
#define LOCKSTEP_WORKER_AGENT_INSTALL_H_

#include <string>

#include "base/result.h"

namespace lockstep::agent {

// Needs nothing but to be able to write `folder`. Unavailable, with the reason, when it can't.
Status InstallSelf(const std::string& folder);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_INSTALL_H_
