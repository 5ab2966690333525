// MpiEnds: what this machine's ranks say of their ends through a service of MPI's (PmiServer,
// PmixServer), for one generation. One that calls MPI_Abort and does not end by itself is killed.
#ifndef LOCKSTEP_WORKER_AGENT_SERVICES_MPI_ENDS_H_
#define LOCKSTEP_WORKER_AGENT_SERVICES_MPI_ENDS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/event_loop.h"
#include "base/wake_timer.h"
#include "core/failure/failure.h"
#include "worker/agent/logs/log.h"

namespace lockstep::agent {

struct MpiAbort {
  uint32_t local_rank = 0;
  int code = 0;
  std::string text;  // "": it gave none
};

class MpiEnds {
 public:
  using Kill = std::function<void(uint32_t local_rank)>;

  // How long a process that called MPI_Abort may take to end by itself.
  static constexpr Duration kAbortPatience = seconds(1);

  MpiEnds(EventLoop* loop, uint32_t first_rank, Kill kill, LogFn log);

  void OnAbort(const MpiAbort& abort);
  void Clear();

  // Of a rank that called MPI_Abort, whatever its exit code, its code and words are the failure's.
  // One that ends well within MPI (`unfinished`) leaves the others waiting: it is a failure, too.
  // False for an end that is none.
  bool Judge(uint32_t local_rank, bool unfinished, core::Failure* death) const;

 private:
  EventLoop* loop_;
  uint32_t first_rank_;
  Kill kill_;
  LogFn log_;
  std::map<uint32_t, MpiAbort> aborts_;  // by local rank
  WakeTimer timer_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_SERVICES_MPI_ENDS_H_
