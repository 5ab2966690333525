// RunFolder: the private folder of one run, in memory where there is /dev/shm, for its agents'
// sockets and local folders, with one on disk beside it for their ranks' temporary files. Both are
// removed with the run; what a killed run left is removed by the next one.
#ifndef LOCKSTEP_WORKER_PLACE_RUN_FOLDER_H_
#define LOCKSTEP_WORKER_PLACE_RUN_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace lockstep::place {

class RunFolder {
 public:
  static Result<RunFolder> Make();
  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&&) = delete;
  ~RunFolder();

  const std::string& path() const { return path_; }
  // A new folder for one agent.
  Result<std::string> MakeAgentFolder(uint32_t machine, uint32_t attempt) const;

 private:
  RunFolder() = default;
  std::string AgentFolder(uint32_t machine, uint32_t attempt) const;

  std::string path_;
  UniqueFd lock_;
};

// Of each run of this user that is under way on this computer, the folders of its agents, the
// newest attempt of each machine.
std::vector<std::vector<std::string>> AgentFoldersOfRuns();

}  // namespace lockstep::place

#endif  // LOCKSTEP_WORKER_PLACE_RUN_FOLDER_H_
