// LiveTable: what the agent and its guard share, one page of memory: when the lease ends, and the
// process groups of the live ranks. Both sides read and write it while the other runs, is stopped
// or is dead, so there is no lock in it.
//
// Protocol.
//  Lease. The agent stores the lease's end. When that is earlier than the end before it, or there
//    was none, it wakes the guard (an eventfd); a later end needs no wake-up, for the guard sleeps
//    to the end it knew, reads the page again and sleeps on: an idle guard wakes once in a lease.
//  Process numbers. A number may be killed only while it cannot have been used anew, that is until
//    its zombie is reaped, and only the agent reaps. So
//      agent:  takes the group off the table;  reads `killing`;  reaps only if it is 0
//      guard:  sets `killing`;  reads the table;  kills;  clears `killing`
//    with sequentially consistent accesses. Either the agent sees `killing` and puts the reaping
//    off (the lease is out then: nothing is in a hurry), or the guard sees the group gone.
//  After a kill the guard stores the lease's end that it acted on, so that the agent can tell its
//    guard's SIGKILL from others'.
#ifndef LOCKSTEP_WORKER_AGENT_PROCESSES_LIVE_TABLE_H_
#define LOCKSTEP_WORKER_AGENT_PROCESSES_LIVE_TABLE_H_

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/unique_fd.h"

namespace lockstep::agent {

// processesPerMachine is at most 64; a group keeps its place until it is reaped.
inline constexpr size_t kMaxGroups = 256;

class LiveTable {
 public:
  // A new one, in memory that a child can be given by its descriptor.
  static Result<std::unique_ptr<LiveTable>> Create();
  // The one behind a descriptor that was handed down; takes it.
  static Result<std::unique_ptr<LiveTable>> Open(UniqueFd memory);
  ~LiveTable();
  LiveTable(const LiveTable&) = delete;
  LiveTable& operator=(const LiveTable&) = delete;

  // Agent's side.
  // TooLarge when kMaxGroups groups stand.
  Status Add(pid_t group);
  void Remove(pid_t group);
  // Whether children that are not in it may be reaped now; else to be asked again in a millisecond.
  bool MayReap() const { return page_->killing.load() == 0; }
  // kNever: no lease. True when the guard must be woken.
  bool SetLeaseEnd(Time end);
  // The guard has killed for a lease that ended then; zero: it never has.
  Time killed_for() const { return Time(page_->killed_for.load()); }
  int memory_fd() const { return memory_.get(); }

  // Guard's side.
  Time lease_end() const { return Time(page_->lease_end.load()); }
  void BeginKilling() { page_->killing.store(1); }
  void EndKilling(Time lease_end);
  std::vector<pid_t> groups() const;

  // A guard that died while killing left the mark: for the agent, before it starts another.
  void ForgetDeadGuard() { page_->killing.store(0); }

 private:
  struct Page {
    std::atomic<int64_t> lease_end;
    std::atomic<int64_t> killed_for;
    std::atomic<uint32_t> killing;
    std::array<std::atomic<int32_t>, kMaxGroups> groups;  // 0: free
  };
  static_assert(std::atomic<int64_t>::is_always_lock_free, "two processes share them");
  static_assert(std::atomic<int32_t>::is_always_lock_free, "two processes share them");

  LiveTable(UniqueFd memory, Page* page) : memory_(std::move(memory)), page_(page) {}

  UniqueFd memory_;
  Page* page_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_PROCESSES_LIVE_TABLE_H_
