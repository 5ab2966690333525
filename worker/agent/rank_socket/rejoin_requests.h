// RejoinRequests: requests of this machine's ranks to take part in the next generation, too
// (docs/reference/protocol.md): which asked to hear of this one's end, which left it and wait for
// the next. The member spares a rank that asked when its generation ends for another rank's death.
//
// Requests about other generations or other machines' ranks are refused. One thread.
#ifndef LOCKSTEP_WORKER_AGENT_RANK_SOCKET_REJOIN_REQUESTS_H_
#define LOCKSTEP_WORKER_AGENT_RANK_SOCKET_REJOIN_REQUESTS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "core/terms/generation.h"
#include "worker/agent/rank_socket/progress_message.h"

namespace lockstep::agent {

class RejoinRequests {
 public:
  using ClientId = uint64_t;

  class Owner {
   public:
    virtual void Answer(ClientId client, const std::string& line) = 0;
    virtual bool CanKeep(uint32_t rank) = 0;
    virtual void OnRejoins(uint32_t rank, bool can) = 0;
    virtual void OnLeft(uint32_t rank) = 0;
    // It waits for the next generation, and can't be told of it any more.
    virtual void Kill(uint32_t rank) = 0;

   protected:
    ~Owner() = default;
  };

  // `owner` outlives this.
  explicit RejoinRequests(Owner* owner) : owner_(owner) {}

  void BeginGeneration(core::Generation generation);
  // A rank that lived on is one of the generation.
  void Tell(uint32_t rank, const Json& changes);
  // Its generation ends, and these live on, as it seems.
  void OnEnded(const std::set<uint32_t>& spared);

  void OnQuestion(ClientId client, const RejoinQuestion& question);
  void OnQuestion(ClientId client, const LeftQuestion& question);
  void OnClosed(ClientId client);

 private:
  struct Asked {
    ClientId client = 0;
    uint64_t id = 0;
  };
  using Ranks = std::map<uint32_t, Asked>;

  // The rank whose question stands there by this client, which is taken away.
  static std::set<uint32_t> TakeOf(Ranks& ranks, ClientId client);
  void End(uint32_t rank);

  Owner* owner_;
  std::string generation_;
  Ranks rejoin_;              // to be told of the end
  Ranks left_;                // to be told of the next
  std::set<uint32_t> ended_;  // ranks that are spared
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_RANK_SOCKET_REJOIN_REQUESTS_H_
