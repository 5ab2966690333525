// MpiEnds: what this machine's ranks say of their ends through a service of MPI's (PmiServer,
// PmixServer), for one generation. One that calls MPI_Abort and does not end by itself is killed.
#ifndef LOCKSTEP_WORKER_AGENT_SERVICES_MPI_ENDS_H_
#define LOCKSTEP_WORKER_AGENT_SERVICES_MPI_ENDS_H_

#include <cstdint>
#include <map>
#include <string>

#include "base/loop/event_loop.h"
#include "base/loop/wake_timer.h"
#include "core/failure/failure.h"
#include "worker/agent/logs/log.h"
#include "worker/agent/services/mpi_owner.h"

namespace lockstep::agent {

struct MpiAbort {
  uint32_t local_rank = 0;
  int code = 0;
  std::string text;  // "": it gave none
};

class MpiEnds {
 public:
  // How far a rank's process has come.
  enum class Stage : uint8_t { kNeverBegan, kWithin, kFinalized };

  // How long a process that called MPI_Abort may take to end by itself.
  static constexpr Duration kAbortPatience = seconds(1);

  // `ranks`: of the whole job. `owner` outlives this.
  MpiEnds(EventLoop* loop, uint32_t first_rank, uint64_t ranks, MpiOwner* owner, LogFn log);

  void OnAbort(const MpiAbort& abort);
  void Clear();

  // Whether a rank's end is a failure. An exit with 0 is one, too, in three cases:
  // - It called MPI_Abort: the failure has the code and the words of that call.
  // - It is still within MPI, where the others wait for it.
  // - It never began MPI though it has peers: it was a world of its own.
  bool Judge(uint32_t local_rank, Stage stage, core::Failure* death) const;

 private:
  EventLoop* loop_;
  uint32_t first_rank_;
  uint64_t ranks_;
  MpiOwner* owner_;
  LogFn log_;
  std::map<uint32_t, MpiAbort> aborts_;  // by local rank
  WakeTimer timer_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_SERVICES_MPI_ENDS_H_
