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
  // For RunsUnderWay.
  void NameJob(const std::string& job) const;
  // A new folder for one agent.
  Result<std::string> MakeAgentFolder(uint32_t machine, uint32_t attempt) const;
  // Where that is.
  std::string AgentFolder(uint32_t machine, uint32_t attempt) const;

 private:
  RunFolder() = default;

  std::string path_;
  UniqueFd lock_;
};

struct RunUnderWay {
  std::string folder;
  int pid = 0;                      // of its `lockstep run`; 0: not known
  std::string job;                  // "": not named yet
  std::vector<std::string> agents;  // their folders: the newest attempt of each machine
};

// This user's runs on this computer.
std::vector<RunUnderWay> RunsUnderWay();

}  // namespace lockstep::place

#endif  // LOCKSTEP_WORKER_PLACE_RUN_FOLDER_H_
