// WorldWatch: whether the ranks of a job form the one world that they should. Machine 0's agent has
// it, for one process of each machine would do the same. It looks at what runs, at intervals that
// grow from 0.25 to 10 s and when a rank ends:
// - a launcher among the ranks' processes that can't join the machines of the job;
// - a process that was told of a world of fewer machines (WORLD_SIZE, LOCAL_WORLD_SIZE);
// - the size of an mpirun's world (framework: Mpi);
// - whether anybody ever connected to MASTER_ADDR:MASTER_PORT, or one rank to another.
// Once ranks have met nothing is looked for any more. What lives less long than an interval may not
// be seen.
#ifndef LOCKSTEP_WORKER_AGENT_RANKS_WORLD_WATCH_H_
#define LOCKSTEP_WORKER_AGENT_RANKS_WORLD_WATCH_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/wake_timer.h"
#include "base/text/endpoint.h"
#include "base/time.h"
#include "core/model/spec.h"
#include "worker/agent/evidence/evidence.h"
#include "worker/agent/processes/connections.h"

namespace lockstep::agent {

class WorldWatch {
 public:
  class Owner {
   public:
    virtual std::vector<RankProcess> Ranks() = 0;  // of this machine
    virtual std::set<std::string> Machines() = 0;  // as AnyBetween has them
    virtual void OnLook() = 0;                     // DoubtOfSuccess() may be another
    virtual void OnDoubt() = 0;                    // doubt() says something new
    virtual void OnMpiWorld(int64_t size) = 0;     // of a launcher's ranks

   protected:
    ~Owner() = default;
  };

  // All outlive this.
  WorldWatch(EventLoop* loop, const core::Spec* spec, Owner* owner);

  // A generation of so many machines, whose ranks are told this address, is about to run.
  void Begin(const Endpoint& master, int machines);
  // At any time; a rank's end is a good one.
  void Look();
  void End() { timer_.Cancel(); }

  // What runs that forms another world, and what to write instead; "": nothing that was seen.
  const std::string& doubt() const { return doubt_; }
  // The same of a job that has succeeded, whose ranks should have met.
  std::string DoubtOfSuccess() const;

 private:
  struct Process {
    uint32_t rank = 0;
    pid_t pid = 0;
    bool is_rank = false;  // else it descends from one
  };

  bool settled() const;
  bool MeetsByTcp() const;
  std::vector<Process> Processes() const;
  void LookAt(const Process& process);
  void Doubt(std::string doubt);
  bool HaveMet(const std::vector<Process>& processes,
               const std::vector<TcpConnection>& connections) const;

  const core::Spec* spec_;
  Owner* owner_;
  Endpoint master_;
  int machines_ = 1;
  Time begun_{};
  bool python_;  // a rank runs it
  bool met_ = false;
  std::string doubt_;
  WakeTimer timer_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_RANKS_WORLD_WATCH_H_
