// GangLink: the operator's side of GET /status and PUT /gang (docs/reference/protocol.md) for
// many jobs on one event loop, without threads.
//
//   GangLink link(loop, {}, owner);
//   link.Set("default/gpt", peers);        // whenever a machine's address or attempt changed
//   link.SetDesiredState("default/gpt", state);   // sent until machine 0's attempt takes it
//   if (link.Accepted("default/gpt", state)) ...
//   link.Forget("default/gpt");
//
// Each job has one long poll at machine 0: it is answered at the first change, else after a third
// of machineLostAfter, at most 30 s. Once that answer is overdue, and until machine 0 answers, the
// other members are asked in turn as well, the next one while one is late. Their reports of its
// silence are evidence of a loss; this link's own failures are not.
//
// Bounded: `max_polls` connections for polls, some 20 KB each (further questions wait, polls are
// then short, and each is a connection of its own) and `max_puts` for desired states, 1 MiB an
// answer, a deadline for each request; and the more jobs there are, the less often each is asked
// while it runs. A job that waits for its turn needs memory for its peers and its desired state
// only. All of it belongs to the loop's thread; a callback may call anything here.
#ifndef LOCKSTEP_OPERATOR_GANG_GANG_LINK_H_
#define LOCKSTEP_OPERATOR_GANG_GANG_LINK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/crypto/hkdf.h"
#include "base/loop/event_loop.h"
#include "base/time.h"
#include "core/gang/status/status_api.h"

namespace lockstep::gang {

// The machines of one job that can be asked: their agents run and have an address.
struct GangPeers {
  struct Member {
    uint32_t machine = 0;
    uint32_t attempt = 0;
    std::string address;  // "10.0.0.7:7070", of its port lockstep-gang

    friend bool operator==(const Member&, const Member&) = default;
  };
  std::string job_uid;
  Key key{};  // the job's
  Duration machine_lost_after = seconds(15);
  std::vector<Member> members;  // each machine once, machine 0 too where it runs

  friend bool operator==(const GangPeers&, const GangPeers&) = default;
};

struct GangLinkOptions {
  size_t max_polls = 256;
  size_t max_puts = 64;
  Duration first_retry = milliseconds(5);  // wait after a failure; doubles while no member answers
  Duration last_retry = seconds(10);
  // Between the polls of a gang that runs: its steps change the status all the time. And at least
  // this for each job there is: 2,500 polls a second of all, which took half of a core.
  Duration calm = seconds(1);
  Duration calm_a_job = microseconds(400);
  // Least time between two questions. It doubles while answers come less than a second apart, so a
  // machine 0 that lies costs the operator no more than that.
  Duration first_gap = milliseconds(50);
  Duration last_gap = milliseconds(500);
  // Also asks gangs of more than core::kMaxProgressInStatus ranks for GangStatus::by_machine.
  bool by_machine = false;
};

class GangJob;
struct GangShared;

class GangLink {
 public:
  class Owner {
   public:
    // The report of the coordinator (status.coordinator) or another member, from the attempt in the
    // job's peers.
    virtual void OnStatus(const std::string& job, const core::GangStatus& status, Time at) = 0;
    // Machine 0's current attempt took the desired state that stands.
    virtual void OnAccepted(const std::string& job) = 0;

   protected:
    ~Owner() = default;
  };

  // Both outlive this.
  GangLink(EventLoop* loop, const GangLinkOptions& options, Owner* owner);
  ~GangLink();
  GangLink(const GangLink&) = delete;
  GangLink& operator=(const GangLink&) = delete;

  // Starts to poll the job's peers, or replaces them. The same peers again change nothing.
  void Set(const std::string& job, GangPeers peers);
  // Ends the job's requests; no further callback comes.
  void Forget(const std::string& job);

  // For a job that was Set. nullopt: nothing is sent; machine 0 keeps the state that it took last.
  void SetDesiredState(const std::string& job, const std::optional<core::DesiredState>& desired);
  // Whether machine 0's current attempt took exactly this desired state last.
  bool Accepted(const std::string& job, const core::DesiredState& desired) const;

  // Why the last question to this job's machines got no answer; empty when it got one.
  std::string LastError(const std::string& job) const;
  // Whether machine 0 gave one, and it was of no use.
  bool IsUnreadable(const std::string& job) const;

 private:
  std::unique_ptr<GangShared> shared_;
  std::map<std::string, std::unique_ptr<GangJob>> jobs_;
};

}  // namespace lockstep::gang

#endif  // LOCKSTEP_OPERATOR_GANG_GANG_LINK_H_
