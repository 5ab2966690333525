// KeptCaches: what compilers made (compile_caches.h), kept on the job's claim, so that a machine
// that is new need not make it again:
//
//   CHECKPOINT.PATH/compiled/3f06.../inductor/...   of one kind of machine, image and interpreter
//   CHECKPOINT.PATH/compiled/3f06.../identity       which, in words
//
// Machine 0 adds what its ranks made when they are dead; every new machine fetches before its ranks
// compile. Both happen on a thread of their own, within limits of time and size: a rank waits for
// neither, and one that was faster than the copy goes on with what it makes itself.
#ifndef LOCKSTEP_WORKER_AGENT_STORAGE_KEPT_CACHES_H_
#define LOCKSTEP_WORKER_AGENT_STORAGE_KEPT_CACHES_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/process/process.h"
#include "base/result.h"
#include "worker/agent/files/file_worker.h"
#include "worker/agent/logs/log.h"
#include "worker/topology/gpus.h"

namespace lockstep::agent {

// What code that was compiled for one rank depends on and its compilers need not know: the
// interpreter and each package that is installed beside it, with when it was; the kind of CPU, of
// GPUs and their driver. Invalid: it is no Python, of whose image nothing is known.
Result<std::string> CacheIdentity(const SpawnRequest& rank, const std::vector<topology::Gpu>& gpus,
                                  const std::string& root = "");

class KeptCaches {
 public:
  // `folder` is the agent's, `claim` checkpoint.path. `identity` is called on another thread, once.
  // `done`: no copy holds up the agent's end any more.
  KeptCaches(EventLoop* loop, std::string folder, std::string claim,
             std::function<Result<std::string>()> identity, std::function<void()> done, LogFn log);
  ~KeptCaches();
  KeptCaches(const KeptCaches&) = delete;
  KeptCaches& operator=(const KeptCaches&) = delete;

  void Fetch();
  // All ranks are dead.
  void Keep();
  bool keeping() const { return keeping_; }

 private:
  struct Shared;

  EventLoop* loop_;
  std::shared_ptr<Shared> shared_;
  std::function<void()> done_;
  LogFn log_;
  bool keeping_ = false;
  std::unique_ptr<FileWorker> worker_;  // null: there can be none, and nothing is kept
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_STORAGE_KEPT_CACHES_H_
