// What compilers of training programs keep on disk (docs/environment.md): folders that outlive a
// generation, and what a killed rank leaves half-made in them, on which the next one's would wait
// for minutes or fail. Only the agent's own folders are looked at, never those a user named.
#ifndef LOCKSTEP_WORKER_AGENT_RANKS_COMPILE_CACHES_H_
#define LOCKSTEP_WORKER_AGENT_RANKS_COMPILE_CACHES_H_

#include <filesystem>
#include <string>

#include "base/time.h"

namespace lockstep::agent {

// A folder for each of core::CompileCaches(); one that cannot be made is left to the program.
void MakeCompileCaches(const std::string& folder);

// Removes locks, temporary files and truncated libraries last written before `death`, while all
// ranks are dead and before others are started: these would wait on a lock, or take its end for
// the end of a build. What is not reached within `limit` stays. The number of things removed.
int ClearHalfMade(const std::string& folder, std::filesystem::file_time_type death, Duration limit);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_RANKS_COMPILE_CACHES_H_
