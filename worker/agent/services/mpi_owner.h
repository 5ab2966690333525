// MpiOwner: what the owner of MpiServices is told and asked. PmiServer calls OnFence and KillRank,
// PmixServer all of it.
#ifndef LOCKSTEP_WORKER_AGENT_SERVICES_MPI_OWNER_H_
#define LOCKSTEP_WORKER_AGENT_SERVICES_MPI_OWNER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/failure/failure.h"
#include "core/gang/protocol/messages.h"

namespace lockstep::agent {

class MpiOwner {
 public:
  // What Begin left open: the ranks may start.
  virtual void OnReady(core::Generation generation) = 0;
  // All ranks of this machine wait in a fence, and have put these; Deliver follows.
  virtual void OnFence(core::Generation generation, std::vector<core::TableEntry> entries) = 0;
  // The server ended. `death` is of no rank: its own, with its last words.
  virtual void OnLost(core::Generation generation, core::Failure death) = 0;
  // Of the generation: the same on all machines, and nobody else's to know.
  virtual Result<std::string> Secret(core::Generation generation) = 0;
  // The rank called MPI_Abort and has not exited.
  virtual void KillRank(uint32_t local_rank) = 0;

 protected:
  ~MpiOwner() = default;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_SERVICES_MPI_OWNER_H_
