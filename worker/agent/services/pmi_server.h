// PmiServer: PMI-1 (pmi.h) on a port of 127.0.0.1, for this machine's ranks. Each generation has a
// table, a port and ids of its own; whoever knows none of these ids is refused. Nothing is called
// back from within a call but from ReadNow.
#ifndef LOCKSTEP_WORKER_AGENT_SERVICES_PMI_SERVER_H_
#define LOCKSTEP_WORKER_AGENT_SERVICES_PMI_SERVER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/result.h"
#include "core/failure/failure.h"
#include "core/gang/member/member.h"
#include "worker/agent/logs/log.h"
#include "worker/agent/services/line_server.h"
#include "worker/agent/services/mpi_ends.h"
#include "worker/agent/services/pmi.h"

namespace lockstep::agent {

class PmiServer {
 public:
  // `owner` outlives this.
  PmiServer(EventLoop* loop, std::string job_uid, uint32_t machine, uint32_t machines,
            uint32_t processes, MpiOwner* owner, LogFn log);

  // Listens, with an empty table, before any rank of this generation runs.
  Status Begin(core::Generation generation);
  void End();
  void Deliver(const core::DeliverFence& fence);

  // PMI_PORT, and PMI_ID of a rank; before the first generation nothing.
  const std::string& address() const { return address_; }
  uint32_t id(uint32_t local_rank) const { return ids_.empty() ? 0 : ids_[local_rank]; }

  // As MpiEnds has it.
  bool Judge(uint32_t local_rank, core::Failure* death);

 private:
  Status OnLine(LineServer::ClientId client, std::string_view line);
  void CarryOut(Pmi::Effects effects);
  bool MakeRoom();

  EventLoop* loop_;
  std::string job_uid_;
  uint32_t machine_;
  uint32_t machines_;
  uint32_t processes_;
  MpiOwner* owner_;
  LogFn log_;
  core::Generation generation_;
  std::string address_;
  std::vector<uint32_t> ids_;
  std::optional<Pmi> pmi_;
  std::set<LineServer::ClientId> strangers_;  // that have not said whose they are
  MpiEnds ends_;
  std::unique_ptr<LineServer> server_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_SERVICES_PMI_SERVER_H_
