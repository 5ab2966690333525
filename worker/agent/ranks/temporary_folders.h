// TemporaryFolders: TMPDIR of a generation's ranks on this machine, empty at its start and gone
// soon after its end:
//
//   BASE/2-5    of generation 2-5, mode 0700
//
// MPI libraries and others put sockets and files there whose names hold process numbers. These
// repeat in each agent's PID namespace, so that a generation would meet what its dead one left.
#ifndef LOCKSTEP_WORKER_AGENT_RANKS_TEMPORARY_FOLDERS_H_
#define LOCKSTEP_WORKER_AGENT_RANKS_TEMPORARY_FOLDERS_H_

#include <memory>
#include <string>

#include "base/event_loop.h"
#include "base/result.h"
#include "core/failure/generation.h"
#include "worker/agent/logs/log.h"
#include "worker/agent/ranks/file_worker.h"

namespace lockstep::agent {

class TemporaryFolders {
 public:
  // Bytes of a folder's path. A socket's path has 107, of which MPI and PMIx want some 45.
  static constexpr size_t kLongestPath = 59;

  // `base` is this agent's alone; it is made when first needed.
  TemporaryFolders(EventLoop* loop, std::string base, LogFn log);

  // Removes what an earlier agent left, which is not waited for. "": there can be none, and the
  // log says once why.
  std::string Begin(core::Generation generation);
  // Everything of the generation is dead. Its folder is removed on a thread of its own.
  void End();

 private:
  Result<std::string> Make(core::Generation generation) const;
  void Remove(const std::string& folder);

  EventLoop* loop_;
  std::string base_;
  LogFn log_;
  std::string current_;
  bool said_ = false;
  std::unique_ptr<FileWorker> worker_;  // made when first needed
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_RANKS_TEMPORARY_FOLDERS_H_
