// TemporaryFolders: TMPDIR of this machine's ranks:
//
//   BASE/2-5    of the ranks that generation 2-5 started, mode 0700
//
// A folder is empty when its ranks start, and is removed soon after the last of them has ended. A
// rank that outlives its generation keeps its folder, because its program knows the path: data
// loaders and others have sockets there.
//
// MPI libraries and others put sockets and files there whose names hold process numbers. These
// repeat in each agent's PID namespace, so that a generation would meet what its dead one left.
#ifndef LOCKSTEP_WORKER_AGENT_STORAGE_TEMPORARY_FOLDERS_H_
#define LOCKSTEP_WORKER_AGENT_STORAGE_TEMPORARY_FOLDERS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/result.h"
#include "core/terms/generation.h"
#include "worker/agent/files/file_worker.h"
#include "worker/agent/logs/log.h"

namespace lockstep::agent {

class TemporaryFolders {
 public:
  // Bytes of a folder's path. A socket's path has 107, of which MPI and PMIx want some 45.
  static constexpr size_t kLongestPath = 59;

  // `base` is this agent's alone; it is made when first needed.
  TemporaryFolders(EventLoop* loop, std::string base, LogFn log);

  // Makes the folder of the ranks that `generation` starts. The ranks of `kept` keep theirs. All
  // other folders, those of an earlier agent too, are removed on a thread of their own.
  void Begin(core::Generation generation, const std::vector<uint32_t>& kept);
  // The folder of a rank of this generation. "": there can be none, and the log said once why.
  std::string Of(uint32_t rank) const;
  // All ranks are dead.
  void End();

 private:
  Result<std::string> Make(core::Generation generation) const;
  void Remove(const std::string& folder);

  EventLoop* loop_;
  std::string base_;
  LogFn log_;
  std::string current_;                     // of the ranks that are not in kept_
  std::map<uint32_t, std::string> kept_{};  // by rank
  bool said_ = false;
  std::unique_ptr<FileWorker> worker_;  // made when first needed
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_STORAGE_TEMPORARY_FOLDERS_H_
