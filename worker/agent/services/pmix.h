// Pmix: the agent's side of its talk with a lockstep-pmix (worker/pmix/message.h), for one
// generation. Pure: the helper's messages and what other machines have put go in, answers come out;
// PmixServer has the process and its socket.
//
// A fence's data is opaque to the agent. It goes through the gang's own fence
// (core/gang/protocol/kvs_exchange.h) cut into entries without keys, which stay in order; what
// comes back is what all machines put, one after the other from machine 0 on.
#ifndef LOCKSTEP_WORKER_AGENT_SERVICES_PMIX_H_
#define LOCKSTEP_WORKER_AGENT_SERVICES_PMIX_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/gang/protocol/messages.h"
#include "core/plan/environment.h"
#include "worker/agent/services/mpi_ends.h"
#include "worker/pmix/message.h"

namespace lockstep::agent {

class Pmix {
 public:
  struct Effects {
    std::vector<pmix::Message> answers;
    std::vector<core::Variables> ready;  // not empty: of each rank; they may start
    // Every local rank waits in a fence, and has put this.
    std::optional<std::vector<core::TableEntry>> fence;
    std::optional<MpiAbort> abort;
    std::string refused;  // why a fence failed, for the log
  };

  Pmix(uint32_t machines, uint32_t processes);

  // Invalid: the helper is not what it should be. Unavailable: what it says is wrong.
  Result<Effects> OnMessage(pmix::Message message);
  // What all machines have put, in parts.
  std::vector<pmix::Message> OnFence(const std::vector<core::TableEntry>& entries, bool last);

  MpiEnds::Stage StageOf(uint32_t local_rank) const {
    const Rank& rank = ranks_[local_rank];
    if (!rank.joined) return MpiEnds::Stage::kNeverBegan;
    return rank.within ? MpiEnds::Stage::kWithin : MpiEnds::Stage::kFinalized;
  }

 private:
  struct Rank {
    core::Variables variables;
    bool joined = false;
    bool within = false;
  };

  Result<Effects> OnFencePart(const pmix::Message& part);

  size_t most_;  // TableBytes of a fence of this machine's
  std::vector<Rank> ranks_;
  bool ready_ = false;
  bool fencing_ = false;  // OnFence follows
  std::string data_;      // of a fence, as far as it has come
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_SERVICES_PMIX_H_
