// RankBindings: to what this machine's ranks are bound. The plan is made once; what is in effect is
// read back once they run, after the first step of each, when it has made its threads and touched
// its memory, and from time to time for where that memory lies.
//
//   Hook(l, &request) before a rank is started; Read() once all run -> on_bound
//
// on_bound is not called from within Hook.
#ifndef LOCKSTEP_WORKER_AGENT_RANKS_RANK_BINDINGS_H_
#define LOCKSTEP_WORKER_AGENT_RANKS_RANK_BINDINGS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/wake_timer.h"
#include "base/process/process.h"
#include "base/time.h"
#include "core/gang/protocol/messages.h"
#include "core/plan/agent_config.h"
#include "worker/agent/files/file_worker.h"
#include "worker/agent/logs/log.h"
#include "worker/topology/binding/apply.h"
#include "worker/topology/binding/effective.h"
#include "worker/topology/plan/binding_plan.h"

namespace lockstep::agent {

// One rank of this machine, of the latest generation.
struct RankView {
  uint32_t rank = 0;
  pid_t pid = 0;       // 0: not running
  bool bound = false;  // `binding` has been read back
  bool stepped = false;
  topology::EffectiveBinding binding;
};

class RankBindings {
 public:
  // `reason`: why it is less than was asked.
  using OnBound = std::function<void(core::Binding, std::string reason)>;

  // `inherited`: the environment that ranks start from. `views`, by local rank, are others' but for
  // what is said of a binding. Everything pointed to outlives this.
  RankBindings(EventLoop* loop, const core::AgentConfig* config, topology::Machine machine,
               const std::vector<std::string>& inherited, std::vector<RankView>* views,
               OnBound on_bound, LogFn log);
  RankBindings(const RankBindings&) = delete;
  RankBindings& operator=(const RankBindings&) = delete;

  const topology::Machine& machine() const { return machine_; }
  const topology::BindingPlan& plan() const { return plan_; }
  // The machine's cards near its ranks.
  std::vector<topology::Nic> NearNics() const;

  // What is read of the ranks of the one before is dropped.
  void BeginGeneration() { ++generations_; }
  // The process of this request binds itself.
  void Hook(size_t local_rank, SpawnRequest* request) { BindBy(&ranks_[local_rank], request); }
  // As does one that waits to become the rank (ParkedRanks). What came of it is result_of_parked(),
  // until the next one is started; TakeParked says that it has become the rank.
  void HookParked(size_t local_rank, SpawnRequest* request) {
    BindBy(&parked_[local_rank], request);
  }
  topology::BindingErrno result_of_parked(size_t local_rank) const {
    return parked_[local_rank].result;
  }
  void TakeParked(size_t local_rank, topology::BindingErrno result) {
    ranks_[local_rank].result = result;
  }

  // Those that run are read back, and said in the log once, for they are the same each time.
  void Read();
  void OnStep(size_t local_rank);

 private:
  struct Hooked {
    topology::PreparedBinding binding;
    topology::BindingErrno result;
  };
  static void BindBy(Hooked* hooked, SpawnRequest* request);

  bool asked() const;
  topology::BoundProcess ProcessOf(size_t local_rank) const;
  void Log();
  void Report();
  // Reads the rank's binding on reader_'s thread: nothing of a process that has ended. `done` is
  // not called for a generation that is over.
  using ReadDone = std::function<void(std::optional<topology::EffectiveBinding>)>;
  void ReadAgain(size_t local_rank, ReadDone done);
  void OnFirstStep(size_t local_rank, topology::EffectiveBinding binding);
  // Reads where the memory of ranks is, from this one on, one after the other.
  void ReadPlacements(size_t local_rank, Time began);
  FileWorker* Reader();  // null if there can be none

  EventLoop* loop_;
  const core::AgentConfig* config_;
  topology::Machine machine_;
  std::vector<RankView>* views_;
  OnBound on_bound_;
  LogFn log_;
  topology::BindingPlan plan_;
  // By local rank.
  std::vector<topology::Locality> nodes_;
  std::vector<Hooked> ranks_;
  std::vector<Hooked> parked_;
  uint64_t generations_ = 0;
  bool said_ = false;
  // For numa_maps, which may take a second of a large process; made when first needed.
  std::unique_ptr<FileWorker> reader_;
  WakeTimer placement_timer_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_RANKS_RANK_BINDINGS_H_
