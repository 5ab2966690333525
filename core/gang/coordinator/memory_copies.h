// MemoryCopies: which machine holds which part of checkpoints in memory, which machine fetches a
// part from which, and which parts may be dropped. The coordinator owns it. It reads the roster and
// marks there which part a machine was asked to fetch. Pure.
#ifndef LOCKSTEP_CORE_GANG_COORDINATOR_MEMORY_COPIES_H_
#define LOCKSTEP_CORE_GANG_COORDINATOR_MEMORY_COPIES_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/gang/coordinator/coordinator_actions.h"
#include "core/gang/protocol/messages.h"
#include "core/gang/protocol/resume.h"
#include "core/gang/roster/roster.h"

namespace lockstep::core {

class MemoryCopies {
 public:
  // `copies`: each machine's part is held by the next machine as well. Roster and outbox must
  // outlive it.
  MemoryCopies(bool copies, Roster& roster, Outbox& outbox)
      : copies_(copies), roster_(roster), outbox_(outbox) {}

  // ---- what is held ----
  Holdings Held() const;
  // By machines that can be asked for something.
  Holdings WithinReach() const;
  // The newest whole checkpoint above `above` in `held`; none: there is none.
  CheckpointId NewestOf(const Holdings& held, CheckpointId above) const {
    return NewestInMemory(held, unusable_, above);
  }
  // As its parts have it; "": nobody holds one.
  std::string NameOf(CheckpointId id) const;

  // ---- reports of members ----
  void OnHeld(Roster::Slot& slot, const HeldParts& memory);
  // `preparing`: the next generation waits for the part.
  void OnFetchFailed(Roster::Slot& slot, const FetchFailed& failed, bool preparing);

  // ---- a generation ----
  // The checkpoint from which the next one begins, once each machine has its own part; none if the
  // folder's `in_folder` is newer. nullopt: machines were asked for their parts, or TakeProblem()
  // says why they can't get them. `stored`: the checkpoint in the object store, of which machines
  // get parts if none in memory is as new; none if there is no such store.
  std::optional<CheckpointId> Prepare(CheckpointId in_folder, const MemoryPart& stored = {});
  // Why machines could not get their parts from the object store, in several tries; "": no problem.
  // The next Prepare tries again.
  std::string TakeProblem() { return std::exchange(problem_, ""); }
  // A newer checkpoint than `from` of which parts are lost, and with which machines; "": none.
  std::string LostSince(CheckpointId from) const;
  void Begin();
  // While a generation runs: finishes the copies of one checkpoint before those of the next begin,
  // and drops parts older than the last complete checkpoint. True: the newest has all its copies.
  bool Step();

 private:
  void Ask(uint32_t machine, const MemoryPart& part, const std::string& address);
  void Ask(const FetchPlan& plan) {
    Ask(plan.machine, plan.part, roster_[plan.from].memory->address);
  }
  std::optional<CheckpointId> PrepareStored(const Holdings& held, const MemoryPart& stored);
  std::vector<FetchPlan> Missing(const Holdings& held) const;

  const bool copies_;
  Roster& roster_;
  Outbox& outbox_;
  bool changed_ = false;                        // what machines hold, since Step looked
  std::map<CheckpointId, int> failed_fetches_;  // of a machine's own part
  std::set<CheckpointId> unusable_;             // a machine could not get its part
  std::string failure_;                         // of the last fetch
  std::string problem_;                         // as TakeProblem has it
  CheckpointId copying_;                        // its parts go to the next machines
  CheckpointId uncopied_;                       // that one failed
  CheckpointId copied_;                         // the last whose parts are all there
  std::vector<CheckpointId> kept_;              // as last said
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_COORDINATOR_MEMORY_COPIES_H_
