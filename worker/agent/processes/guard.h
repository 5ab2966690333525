// The guard: a second, tiny process of the same file that kills this machine's ranks when their
// lease runs out, for the case that the agent itself cannot (it is stopped, swapped out, or hangs
// in the kernel), and when the agent dies, for whatever the death signal of its children missed.
//
//   auto guard = Guard::Start(loop, spawner, table, "/proc/self/exe", [&](const std::string& why) {
//     /* no guard can be had: kill the ranks */ });
//   guard->SetLeaseEnd(end);      // with each PING; kNever when there are no ranks
//
// Both know the ranks from the LiveTable, whose header states their protocol. The guard sleeps to
// the lease's end, reads it again, and sleeps on or kills: first the groups of the table, then, as
// long as something is left, what descends from the agent. The agent starts another when its guard
// dies.
#ifndef LOCKSTEP_WORKER_AGENT_PROCESSES_GUARD_H_
#define LOCKSTEP_WORKER_AGENT_PROCESSES_GUARD_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "base/loop/event_loop.h"
#include "base/process/process.h"
#include "base/result.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "worker/agent/processes/live_table.h"

namespace lockstep::agent {

class Guard {
 public:
  using Lost = std::function<void(const std::string& reason)>;

  // `executable` runs GuardMain when its first argument is kGuardArgument. Everything given
  // outlives the guard; `on_changed` tells each guard's pid, the first one's too: it is no rank
  // (ProcessSet).
  static Result<std::unique_ptr<Guard>> Start(EventLoop* loop, Spawner* spawner, LiveTable* table,
                                              std::string executable,
                                              std::function<void(pid_t)> on_changed, Lost on_lost);
  ~Guard();  // kills and reaps it
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  void SetLeaseEnd(Time end);
  pid_t pid() const { return pid_; }

 private:
  Guard(EventLoop* loop, Spawner* spawner, LiveTable* table, std::string executable,
        std::function<void(pid_t)> on_changed, Lost on_lost);
  Status Spawn();
  void OnDeath();

  EventLoop* loop_;
  Spawner* spawner_;
  LiveTable* table_;
  std::string executable_;
  std::function<void(pid_t)> on_changed_;
  Lost on_lost_;
  UniqueFd wake_;
  UniqueFd pidfd_;
  pid_t pid_ = 0;
  Time born_{};
  int short_lives_ = 0;
};

inline constexpr char kGuardArgument[] = "--guard";

// The whole life of the guard: `main` returns what it returns when argv[1] is kGuardArgument,
// before anything else is done, so that the process stays small.
int GuardMain(int argc, char** argv);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_PROCESSES_GUARD_H_
