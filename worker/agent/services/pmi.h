// Pmi: one machine's side of PMI-1, the protocol by which MPICH's and Intel MPI's processes find
// one another, for one generation. Pure: lines and what other machines have put go in, answers come
// out; PmiServer has the sockets.
//
// A process says `cmd=initack pmiid=ID` first, and is the rank whose number of this generation that
// is: a random one, which only its own environment tells. Then, a line each
// (docs/reference/protocol.md): init, get_maxes, get_appnum, get_my_kvsname, get_universe_size,
// put, get, barrier_in, finalize, abort. What was put is in the table of all machines after the
// next barrier, which is a fence of the gang's (core/gang/protocol/kvs_exchange.h). Whatever else
// is asked (spawn, publish) is answered with rc=-1.
#ifndef LOCKSTEP_WORKER_AGENT_SERVICES_PMI_H_
#define LOCKSTEP_WORKER_AGENT_SERVICES_PMI_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/gang/protocol/messages.h"
#include "worker/agent/services/mpi_ends.h"

namespace lockstep::agent {

class Pmi {
 public:
  using ClientId = uint64_t;

  struct Shape {
    uint32_t machine = 0;
    uint32_t machines = 1;
    uint32_t processes = 1;     // of each machine
    std::string name;           // of the table: another one in each generation
    std::vector<uint32_t> ids;  // by local rank; all different
  };
  // What follows from a line or a fence.
  struct Effects {
    std::vector<std::pair<ClientId, std::string>> answers;  // with their line ends
    // Every local rank waits in a barrier, and has put these since the last.
    std::optional<std::vector<core::TableEntry>> fence;
    std::optional<MpiAbort> abort;
  };

  static constexpr size_t kMaxLine = size_t{8} << 10;  // bytes, newline included

  explicit Pmi(Shape shape);

  // Invalid or Denied: the connection is to be closed.
  Result<Effects> OnLine(ClientId client, std::string_view line);
  void OnClose(ClientId client) { ranks_of_.erase(client); }
  // What all machines have put, in parts.
  Effects OnFence(const std::vector<core::TableEntry>& entries, bool last);

  // It has said whose it is.
  bool proven(ClientId client) const { return ranks_of_.contains(client); }
  MpiEnds::Stage StageOf(uint32_t local_rank) const {
    const Rank& rank = ranks_[local_rank];
    if (!rank.begun) return MpiEnds::Stage::kNeverBegan;
    return rank.finalized ? MpiEnds::Stage::kFinalized : MpiEnds::Stage::kWithin;
  }

 private:
  struct Rank {
    bool begun = false;
    bool finalized = false;
    bool waits = false;  // in a barrier
    ClientId client = 0;
    size_t put = 0;  // bytes
  };
  using Fields = std::map<std::string_view, std::string_view>;

  Result<Effects> Prove(ClientId client, const Fields& fields);
  std::string Put(Rank& rank, const Fields& fields);
  std::string Get(const Fields& fields) const;
  void EnterBarrier(Rank& rank, Effects* effects);
  bool NamesTable(const Fields& fields) const;

  Shape shape_;
  size_t most_;  // bytes that a rank may put
  std::vector<Rank> ranks_;
  std::unordered_map<ClientId, uint32_t> ranks_of_;  // local ranks of those that have proven it
  std::unordered_map<std::string, std::string> table_;
  std::vector<core::TableEntry> new_;  // put here since the last barrier
  uint32_t waiting_ = 0;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_SERVICES_PMI_H_
