// Commits: requests of a generation's processes to commit, on disk or in memory, until the gang
// answers them. Pure.
#ifndef LOCKSTEP_CORE_GANG_COORDINATOR_COMMITS_H_
#define LOCKSTEP_CORE_GANG_COORDINATOR_COMMITS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/gang/coordinator/coordinator_actions.h"
#include "core/gang/protocol/messages.h"
#include "core/gang/roster/roster.h"

namespace lockstep::core {

class Commits {
 public:
  // Roster and outbox must outlive it.
  Commits(const Roster& roster, Outbox& outbox) : roster_(roster), outbox_(outbox) {}

  // A generation begins, whose commits count from 1.
  void Begin() { number_ = 0; }
  // `stamp`: PINGs with a later one are sent after the request.
  void AskOnDisk(uint32_t machine, uint64_t id, Time stamp);
  void AskInMemory(uint32_t machine, CommitRequest request);
  bool empty() const { return on_disk_.empty() && in_memory_.empty(); }
  // Checkpoints that were granted in all generations.
  uint64_t granted() const { return granted_; }

  // Grants those for which `answered(stamp)` says that every machine has answered since. True: some
  // were granted.
  bool GrantOnDisk(const std::function<bool(Time stamp)>& answered);
  // A checkpoint in memory is granted when every machine has asked for it; if one can't keep its
  // part, none keeps it. The last that was granted.
  std::optional<MemoryPart> GrantInMemory(Generation generation);
  void RefuseAll(const std::string& reason);

 private:
  struct OnDisk {
    uint32_t machine = 0;
    uint64_t id = 0;
    Time requested{};
  };
  struct InMemory {
    uint32_t machine = 0;
    CommitRequest request;
  };

  void Answer(const InMemory& asked, uint32_t number, std::string reason);

  const Roster& roster_;
  Outbox& outbox_;
  std::vector<OnDisk> on_disk_;
  std::vector<InMemory> in_memory_;
  uint32_t number_ = 0;  // of the last that was granted in this generation
  uint64_t granted_ = 0;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_COORDINATOR_COMMITS_H_
