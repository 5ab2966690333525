// ProcessSet: the processes of a generation on this machine, from their birth until nothing of them
// is alive: not they, not their children, not daemons that forked away.
//
//   ProcessSet processes(loop, &live_table, owner);
//   processes.Add(rank, pid, std::move(pidfd));
//   processes.Stop(BootTime() + grace);  // SIGTERM to all at once; SIGKILL to what is left
//
// A death is told at once (pidfd, no polling) with the time at which it was noticed. The order that
// makes process numbers safe: look at the dead leader without reaping it, SIGKILL its group, take
// it off the LiveTable, and reap it, later.
//
// Orphans come to the agent, which is a subreaper; while stopping, every SIGCHLD is a reason to
// look again for what descends from the agent (its guard and its parked interpreters apart) and to
// kill it. Since only the agent can reap its own children, "the agent has no child but those, and
// zombies" is proof that all is gone. What survives SIGKILL for 30 s hangs in the kernel:
// OnUnkillable, and the wait goes on.
//
// One for the life of the agent, one generation after the other. It takes SIGCHLD of the loop.
#ifndef LOCKSTEP_WORKER_AGENT_PROCESSES_PROCESS_SET_H_
#define LOCKSTEP_WORKER_AGENT_PROCESSES_PROCESS_SET_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/loop/wake_timer.h"
#include "base/result.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "core/failure/failure.h"
#include "worker/agent/processes/live_table.h"

namespace lockstep::agent {

// Leaders that are ending by themselves, which is not seen yet: none is signalled before.
struct EndingLeaders {
  std::set<pid_t> pids = {};
  Time until{};
};

class ProcessSet {
 public:
  class Owner {
   public:
    // An exit with 0, too: all but its machine and its last words.
    virtual void OnDeath(core::Failure death) = 0;
    // After Stop: nothing is alive any more but what it spared.
    virtual void OnGone() = 0;
    // Names them.
    virtual void OnUnkillable(const std::string& processes) = 0;

   protected:
    ~Owner() = default;
  };

  static constexpr Duration kUnkillableAfter = seconds(30);
  // Not when a restart is in a hurry: until a thread that ended last has left /proc, too, reaping
  // its process spins in the kernel, for some 4 ms where both share a core.
  static constexpr Duration kReapAfter = milliseconds(50);

  // Makes this process a subreaper. All outlive this.
  ProcessSet(EventLoop* loop, LiveTable* table, Owner* owner);
  ~ProcessSet();
  ProcessSet(const ProcessSet&) = delete;
  ProcessSet& operator=(const ProcessSet&) = delete;

  // The child that is none of a generation. 0: none.
  void SetGuard(pid_t guard);

  // Likewise a parked interpreter (ParkedRanks), and what it starts.
  void LeaveOut(pid_t child) { left_out_.insert(child); }
  // From here on it is reaped here, and a stop waits for its end.
  void TakeIn(pid_t child);

  // Its own process group's leader, just spawned.
  Status Add(int rank, pid_t pid, UniqueFd pidfd);

  // Takes back one that was added and never ran: killed, and told to nobody.
  void Discard(pid_t pid);

  enum class Whose : uint8_t {
    kOthers,
    kMeant,
    kUnknown,  // as long as the kernel doesn't show it
  };
  // SIGKILL to what processes that have ended left behind and is meant, with what descends from it:
  // whether there was anything, or may have been. Once there is not, their numbers are free, too.
  bool KillOrphans(const std::function<Whose(pid_t)>& whose);

  // Ends the generation. `kill_at` in the past: SIGKILL now and no SIGTERM. May be called again
  // with an earlier time, or less that is spared: leaders that are left alone, with what descends
  // from them, for the next generation. OnGone follows, at the earliest at the end of this round.
  void Stop(Time kill_at, const std::set<pid_t>& spared = {}, const EndingLeaders& ending = {});
  // Another generation begins, of which those that were spared are.
  void TakeInSpared();

  bool stopping() const { return stopping_; }
  size_t spared() const { return spared_.size(); }
  size_t live() const { return leaders_.size(); }

 private:
  struct Leader {
    int rank = 0;
    UniqueFd pidfd;
    bool signalled = false;
  };

  void OnExit(pid_t pid);
  void OnChildSignal();
  void SignalGroups(int signal);
  void SignalGroup(pid_t pid, int signal);
  void SignalEnding();
  // Kills what is spared no more; whether there was anything.
  bool Spare(const std::set<pid_t>& spared);
  void KillAll();
  void ReportUnkillable();
  void Sweep();
  void ScheduleSweep();
  void Reap();
  void ReapLater(Duration after = kReapAfter);
  // Zombies too; not those that are left out.
  std::vector<pid_t> OwnChildren() const;

  EventLoop* loop_;
  LiveTable* table_;
  Owner* owner_;
  pid_t guard_ = 0;
  std::set<pid_t> left_out_;  // the guard, too, and spared_
  std::set<pid_t> spared_;    // leaders
  std::set<pid_t> ending_;    // leaders that this stop does not signal yet
  std::map<pid_t, Leader> leaders_;
  bool stopping_ = false;
  bool killing_ = false;  // SIGKILL has been sent, and is sent to whatever shows up
  Time kill_at_ = kNever;
  WakeTimer kill_timer_;
  WakeTimer ending_timer_;
  WakeTimer unkillable_timer_;
  WakeTimer reap_timer_;
  WakeTimer sweep_timer_;
  bool sweep_scheduled_ = false;
  Lifetime lifetime_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_PROCESSES_PROCESS_SET_H_
