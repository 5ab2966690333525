// LocalRanks: this machine's ranks of the generation at hand: environment, binding, exec, output,
// deaths. It carries out the member's Spawn and StopProcesses and tells what becomes of them.
// Nothing is called back from within a call: events come at the end of the loop's round.
#ifndef LOCKSTEP_WORKER_AGENT_RANKS_LOCAL_RANKS_H_
#define LOCKSTEP_WORKER_AGENT_RANKS_LOCAL_RANKS_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/loop/wake_timer.h"
#include "base/process/process.h"
#include "base/text/json.h"
#include "base/time.h"
#include "core/gang/protocol/messages.h"
#include "core/plan/agent_config.h"
#include "worker/agent/logs/log.h"
#include "worker/agent/logs/log_pump.h"
#include "worker/agent/metrics/oom_kills.h"
#include "worker/agent/parked/parked_ranks.h"
#include "worker/agent/processes/live_table.h"
#include "worker/agent/processes/process_set.h"
#include "worker/agent/rank_socket/progress_message.h"
#include "worker/agent/ranks/rank_bindings.h"
#include "worker/agent/ranks/rank_environment.h"
#include "worker/agent/services/mpi_services.h"
#include "worker/agent/storage/kept_caches.h"
#include "worker/agent/storage/shared_memory.h"
#include "worker/agent/storage/temporary_folders.h"
#include "worker/topology/plan/binding_plan.h"

namespace lockstep::agent {

class LocalRanks final : private ProcessSet::Owner, private MpiOwner {
 public:
  class Owner {
   public:
    // `warm`: all of them came of parked interpreters.
    virtual void OnSpawned(core::Generation generation, bool warm) = 0;
    // `reason`: why it is less than was asked.
    virtual void OnBound(core::Generation generation, core::Binding binding,
                         std::string reason) = 0;
    virtual void OnParked(core::Generation generation, core::Parked parked) = 0;
    virtual void OnDied(core::Generation generation, core::Failure death) = 0;
    // `by_itself`: as Failure has it.
    virtual void OnFinished(core::Generation generation, uint32_t rank, bool by_itself) = 0;
    // What Run() began has ended.
    virtual void OnRan(core::Ran ran) = 0;
    virtual void OnAllDead(core::Generation generation) = 0;  // but what Stop() spared
    // A rank that was spared is one of the generation at hand: the variables that are other than it
    // knows them, as a JSON object; null: gone.
    virtual void OnTakenIn(uint32_t rank, const Json& changes) = 0;
    virtual void OnUnkillable(core::Generation generation) = 0;
    virtual void OnKept() = 0;  // busy() may be false now
    // As MpiOwner has them; DeliverFence follows.
    virtual void OnFence(core::Generation generation, std::vector<core::TableEntry> entries) = 0;
    virtual Result<std::string> Secret(core::Generation generation) = 0;

   protected:
    ~Owner() = default;
  };

  // `machine` is what the ranks are bound on. Everything pointed to outlives this.
  LocalRanks(EventLoop* loop, Spawner* spawner, LiveTable* table, LogPump* logs,
             const core::AgentConfig* config, topology::Machine machine, std::string socket_path,
             Owner* owner, LogFn log);
  LocalRanks(const LocalRanks&) = delete;
  LocalRanks& operator=(const LocalRanks&) = delete;

  // Ranks of further generations run in this folder, which has their code; an error: they cannot
  // start. Until this is called they run where the job says.
  void RunIn(Result<std::string> code) { code_ = std::move(code); }
  // The lease is read again before each exec: an agent that was stopped on the way starts no more,
  // and the member, which finds the lease lapsed, stops those that run.
  // Ranks of `kept` live, and are taken in.
  void Start(const core::Start& start, Time lease_end, const std::vector<uint32_t>& kept = {});
  // One rank whose process has ended, as Start started it, but of no parked interpreter; once
  // nothing that it left behind is alive. What cleared its environment is not known as its own, and
  // is swept with the generation.
  void StartAgain(core::Generation generation, uint32_t rank, Time lease_end);
  // A rank that has just said why it fails has a moment to end by itself, so that who failed first
  // is known, unless that is `sure`.
  void Stop(core::Generation generation, Time kill_at, const std::set<uint32_t>& spared = {},
            bool sure = false);
  // Whether a process of the rank's can outlive a generation: one that is no launcher's and has no
  // identity in MPI.
  bool CanKeep(uint32_t rank) const;
  // One that was spared, and can't be reached any more.
  void Kill(uint32_t rank) { KillRank(rank - RankOf(0)); }
  // A launcher on machine 0 runs this here, by a shell, as this machine's process of the generation
  // at hand: after the one before it, should that still be about to end. A death by a signal is
  // the gang's, as a rank's is; so is another exit than with 0, unless the launcher, which is told,
  // ends by it first (core/failure/peer_loss.h).
  void Run(const core::Run& run);

  void DeliverFence(const core::DeliverFence& fence) { mpi_.Deliver(fence); }

  // The rank reports a step.
  void OnStep(uint32_t rank);
  // The rank's program has ended. If its interpreter crashes after that, the rank has finished.
  void OnDone(const DoneReport& report);

  // Once there may be further threads.
  void FetchCaches() {
    if (kept_) kept_->Fetch();
  }

  // As RankEnvironment::OfMachine.
  std::vector<std::string> MachineEnvironment() const { return environment_.OfMachine(); }

  // ProcessSet's: the guard is no rank.
  void SetGuard(pid_t guard) { processes_.SetGuard(guard_ = guard); }
  // ProcessSet's, for other children that are no ranks.
  void LeaveOut(pid_t child) { processes_.LeaveOut(child); }
  void TakeIn(pid_t child) { processes_.TakeIn(child); }
  // The agent is leaving: no generation follows.
  void DropParked() {
    parked_.Close();
    mpi_.Close();
  }
  const ParkedRanks& parked() const { return parked_; }
  // Ranks live, or what they compiled is being copied.
  bool busy() const {
    return processes_.live() > 0 || processes_.stopping() || (kept_ && kept_->keeping());
  }
  const std::vector<RankView>& views() const { return views_; }

 private:
  void OnDeath(core::Failure death) override;
  void OnGone() override;
  void OnUnkillable(const std::string& processes) override;
  void OnReady(core::Generation generation) override;
  void OnFence(core::Generation generation, std::vector<core::TableEntry> entries) override;
  void OnLost(core::Generation generation, core::Failure death) override;
  Result<std::string> Secret(core::Generation generation) override;
  void KillRank(uint32_t local_rank) override;

  // Empties what is known of the ranks that are started anew.
  void Reset();
  // Whether a parked interpreter has become the rank.
  bool LaunchParked(size_t local_rank, SpawnRequest request);
  Status Adopt(size_t local_rank, SpawnedProcess process);
  // Empty: it runs.
  std::string LaunchCommand(const core::Run& run);
  void RunNext();
  void OnCommandEnded(core::Failure death);
  void LaunchRanks(Time lease_end);
  // Empty: it runs.
  std::string LaunchRank(int local_rank, int* exit_code);
  std::string LaunchCold(size_t local_rank, SpawnRequest request, int* exit_code);
  void StartThoseDown();
  // What killed ranks left half-made in compile caches, beside the next generation's start.
  void ClearCaches();
  void SweepSharedMemory();
  bool SaysWhyItFails(int rank);
  // `rank` -1: of none.
  void Fail(int64_t rank, int exit_code, const std::string& message,
            core::Cause cause = core::Cause::kCommandNotFound);
  uint32_t RankOf(int local_rank) const { return environment_.RankOf(local_rank); }

  EventLoop* loop_;
  Spawner* spawner_;
  LiveTable* table_;
  LogPump* logs_;
  const core::AgentConfig* config_;
  Owner* owner_;
  LogFn log_;
  RankEnvironment environment_;
  std::unique_ptr<KeptCaches> kept_;  // null: there is no claim
  TemporaryFolders temporary_;
  SharedMemory shared_memory_;
  pid_t guard_ = 0;
  std::vector<RankView> views_;  // by local rank
  RankBindings bindings_;
  ProcessSet processes_;
  ParkedRanks parked_;
  MpiServices mpi_;
  core::Generation generation_;
  Result<std::string> code_ = std::string();  // as RunIn has it
  // Until the others are launched: ranks that live on into generation_, and the environment that
  // each knows.
  std::map<uint32_t, std::vector<std::string>> known_;
  std::deque<core::Run> runs_;     // what the launcher wants; the first runs
  std::map<uint32_t, Time> down_;  // ranks to start again, and a time to which the lease lasts
  WakeTimer down_timer_;
  std::set<pid_t> done_;  // ranks of this generation whose programs have ended
  size_t warm_ = 0;       // ranks of this generation that came of parked interpreters
  OomKills oom_kills_;
  Lifetime lifetime_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_RANKS_LOCAL_RANKS_H_
