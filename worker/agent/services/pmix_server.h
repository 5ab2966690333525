// PmixServer: a lockstep-pmix for each generation, in which OpenPMIx answers this machine's ranks.
//
// The next generation's is started ahead, for OpenPMIx takes some 0.1 s to begin, and told of the
// generation that a restart in place would make: at Begin its answer is there. It is a child of the
// agent that ProcessSet leaves out until the generation is to stop (Stop); from there on it ends
// with the ranks.
//
//   Begin(g) -> OnReady: the ranks may start
//            -> OnLost: it ended, or did not come to be: the generation has failed
//
// Nothing is called back from within a call but from Judge.
#ifndef LOCKSTEP_WORKER_AGENT_SERVICES_PMIX_SERVER_H_
#define LOCKSTEP_WORKER_AGENT_SERVICES_PMIX_SERVER_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/loop/wake_timer.h"
#include "base/process/process.h"
#include "base/result.h"
#include "base/text/line_buffer.h"
#include "base/unique_fd.h"
#include "core/failure/failure.h"
#include "core/gang/member/member.h"
#include "worker/agent/logs/log.h"
#include "worker/agent/processes/process_set.h"
#include "worker/agent/services/mpi_ends.h"
#include "worker/agent/services/pmix.h"

namespace lockstep::agent {

class PmixServer {
 public:
  struct Options {
    std::string program;  // lockstep-pmix
    std::string folder;   // of this agent's alone; each helper has one in it
    std::string job_uid;
    uint32_t machine = 0;
    uint32_t machines = 1;
    uint32_t processes = 1;
    Duration patience = seconds(20);  // until a helper that is told of a generation is ready
  };

  // All outlive this.
  PmixServer(EventLoop* loop, Spawner* spawner, ProcessSet* processes, Options options,
             MpiOwner* owner, LogFn log);
  ~PmixServer();
  PmixServer(const PmixServer&) = delete;
  PmixServer& operator=(const PmixServer&) = delete;

  // An error: there is no such program, or it cannot be run.
  Status Begin(core::Generation generation);
  // By local rank, from OnReady on.
  const std::vector<core::Variables>& variables() const { return variables_; }
  void Deliver(const core::DeliverFence& fence);
  // The ranks are to end; the helper's own end is no failure any more.
  void Stop();
  // They have, and so has the helper.
  void End();
  // The agent is leaving.
  void Close();

  // As MpiEnds has it. One that ends well and never began MPI was a world of its own.
  bool Judge(uint32_t local_rank, core::Failure* death);

 private:
  struct Helper {
    SpawnedProcess process;
    UniqueFd socket;
    std::string folder;
    core::Generation told;           // of this one
    std::deque<std::string> unsent;  // packets
    LineBuffer said{4096};
    std::string last_words;
    bool taken_in = false;  // ProcessSet ends it
  };

  Status Spawn(std::unique_ptr<Helper>* helper);
  void Prepare();
  Status Tell(Helper* helper, core::Generation generation);
  void Drop(std::unique_ptr<Helper>* helper);
  void RemoveFolders();
  void OnSocket(uint32_t events);
  void ReadSocket();
  void ReadWords(Helper* helper);
  void Send(const std::vector<pmix::Message>& messages);
  void Flush();
  void CarryOut(Pmix::Effects effects);
  void OnEnded();
  void Lose(core::Failure death);

  EventLoop* loop_;
  Spawner* spawner_;
  ProcessSet* processes_;
  Options options_;
  MpiOwner* owner_;
  LogFn log_;
  RateLimitedLog words_;
  core::Generation generation_;
  std::unique_ptr<Helper> next_;    // waits
  std::unique_ptr<Helper> helper_;  // of generation_
  std::optional<Pmix> pmix_;
  std::vector<core::Variables> variables_;
  bool stopping_ = false;
  uint64_t folders_ = 0;
  std::vector<std::string> dropped_folders_;
  MpiEnds ends_;
  WakeTimer patience_;
  WakeTimer prepare_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_SERVICES_PMIX_SERVER_H_
