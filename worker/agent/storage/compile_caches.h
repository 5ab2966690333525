// What compilers of training programs keep on disk (docs/reference/environment.md): folders that
// outlive a generation, and what a killed rank leaves half-made in them, on which the next one's
// would wait for minutes or fail. Only the agent's own folders are looked at, never those a user
// named. What is copied to the job's claim and from it is KeptCaches' to say.
#ifndef LOCKSTEP_WORKER_AGENT_STORAGE_COMPILE_CACHES_H_
#define LOCKSTEP_WORKER_AGENT_STORAGE_COMPILE_CACHES_H_

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/time.h"

namespace lockstep::agent {

// A folder for each of core::CompileCaches(); one that cannot be made is left to the program.
void MakeCompileCaches(const std::string& folder);

// Removes locks, temporary files and truncated libraries last written before `death`, while all
// ranks are dead and before others are started: these would wait on a lock, or take its end for
// the end of a build. What is not reached within `limit` stays. The number of things removed.
int ClearHalfMade(const std::string& folder, std::filesystem::file_time_type death, Duration limit);

struct CopyLimits {
  uint64_t bytes = uint64_t{1} << 30;  // of all there is afterwards
  Duration time = seconds(20);
  std::shared_ptr<const std::atomic<bool>> stop;  // null: nobody stops it
};

struct CachesCopied {
  int files = 0;
  uint64_t bytes = 0;
  bool whole = true;  // no limit was reached
};

// Adds to `kept` what it has not of what `folder` had before `death`, file by file, each of them
// whole or not there. What is half-made stays behind.
CachesCopied KeepCaches(const std::string& folder, const std::string& kept,
                        std::filesystem::file_time_type death, const CopyLimits& limits);

// Fills those compilers' folders that nobody has used yet, each at once and as it is kept, or not
// at all.
CachesCopied FetchCaches(const std::string& kept, const std::string& folder,
                         const CopyLimits& limits);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_STORAGE_COMPILE_CACHES_H_
