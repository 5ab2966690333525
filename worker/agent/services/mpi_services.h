// MpiServices: what this agent does for ranks that meet in MPI, one generation after the other. By
// mpi.start that is PMI-1 (PmiServer), for MPICH and Intel MPI, or PMIx (PmixServer), for Open MPI;
// for all other jobs it does nothing. LocalRanks owns it, starts the ranks and tells of their ends:
//
//   Begin(g) -> the ranks may start, or OnReady: only now
//            -> OnFence, Deliver: as often as they exchange their addresses
//            -> OnLost: a server ended, and the generation has failed
//   Judge for each rank that ends; Stop as they are to end, End once they have
//
// Nothing is called back from within a call but from Judge.
#ifndef LOCKSTEP_WORKER_AGENT_SERVICES_MPI_SERVICES_H_
#define LOCKSTEP_WORKER_AGENT_SERVICES_MPI_SERVICES_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/loop/event_loop.h"
#include "base/process/process.h"
#include "base/result.h"
#include "core/failure/failure.h"
#include "core/gang/member/member.h"
#include "core/plan/agent_config.h"
#include "core/plan/environment.h"
#include "worker/agent/logs/log.h"
#include "worker/agent/services/mpi_owner.h"
#include "worker/agent/services/pmi_server.h"
#include "worker/agent/services/pmix_server.h"

namespace lockstep::agent {

class MpiServices {
 public:
  // lockstep-pmix is the one beside this program. All outlive this.
  MpiServices(EventLoop* loop, Spawner* spawner, ProcessSet* processes,
              const core::AgentConfig& config, MpiOwner* owner, const LogFn& log);

  // Whether the ranks have an identity in MPI.
  bool any() const { return pmi_ || pmix_; }
  // Whether a process of its own serves them: OnReady follows Begin.
  bool has_helper() const { return pmix_ != nullptr; }

  // Before any rank of this generation runs. NotFound: the helper is missing.
  Status Begin(core::Generation generation);
  // What a rank is told, as far as it is known.
  void AddTo(core::ProcessIdentity* identity) const;
  void Deliver(const core::DeliverFence& fence);
  // Whether a rank's end is a failure; it is told in `death` what MPI knows of it.
  bool Judge(uint32_t local_rank, core::Failure* death);
  // The ranks are to end.
  void Stop();
  // They have.
  void End();
  // The agent is leaving: no generation follows.
  void Close();

 private:
  std::unique_ptr<PmiServer> pmi_;    // null: the job has none
  std::unique_ptr<PmixServer> pmix_;  // likewise
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_SERVICES_MPI_SERVICES_H_
