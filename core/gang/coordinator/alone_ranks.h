// AloneRanks: ranks whose death is theirs alone. Each is started again while the others run on, out
// of the same budget and with the same waits as a gang. What the policy answers with anything but a
// restart ends the generation, as any other rank's death does.
//
// A rank that lost a peer ends as well, and may be heard of first. So a death is charged, and the
// budget's end is one, only when it is known that the gang goes on; a start does not wait for that.
//
// The coordinator owns it, and stops the generation where it is told to. Pure.
#ifndef LOCKSTEP_CORE_GANG_COORDINATOR_ALONE_RANKS_H_
#define LOCKSTEP_CORE_GANG_COORDINATOR_ALONE_RANKS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/time.h"
#include "core/failure/counters.h"
#include "core/failure/failure.h"
#include "core/gang/coordinator/coordinator_actions.h"
#include "core/gang/roster/roster.h"
#include "core/terms/generation.h"
#include "core/terms/process_names.h"

namespace lockstep::core {

// How long the gang goes on after deaths of processes that say themselves that they lost a peer: a
// process whose connections have ended may still be printing where it crashed, and what is killed
// meanwhile can't be told from what did not fail.
inline constexpr Duration kSettle = milliseconds(300);

class AloneRanks {
 public:
  struct Config {
    std::vector<uint32_t> ranks;  // that are started again alone
    uint32_t processes = 1;       // of a machine
    ProcessNames names;
  };
  // What the gang does about a death.
  enum class Answer : uint8_t { kRunOn, kStop };

  // Policy, roster, counters and outbox must outlive it.
  AloneRanks(Config config, const FailurePolicy& policy, const Roster& roster, Counters& counters,
             Outbox& outbox)
      : config_(std::move(config)),
        policy_(policy),
        roster_(roster),
        counters_(counters),
        outbox_(outbox) {}

  void Begin(Generation generation);
  // A rank of the running generation has died, or is said to have once more. `began`: when the
  // generation's processes were started.
  Answer OnDeath(Time now, const Roster::Slot& slot, Failure death, Time began);
  // Deaths that are to be charged wait for PINGs that are sent after `stamp`; false: none do.
  bool AskWhetherAlive(Time now, const std::function<Time()>& stamp);
  // Charges those since whose `stamp` every machine has answered.
  Answer ChargeSettled(Time now, const std::function<bool(Time stamp)>& answered);
  // All that were started again: they followed from no other's death.
  void ChargeAll();
  void DropUncharged() { uncharged_.clear(); }
  // Starts those whose wait is over.
  void StartDue(Time now);

  // The last death after which a rank was started again, since this was asked.
  std::optional<Failure> TakeFailure() { return std::exchange(failure_, std::nullopt); }
  // When it was heard of.
  Time last_death() const { return last_death_; }
  // Whether this rank's death is the gang's.
  bool escalated(uint32_t rank) const;
  // `settling`: the gang is about to stop, and nothing is charged.
  Time NextWake(bool settling) const;

 private:
  struct Rank {
    Time died{};             // the last time, as its machine says
    Time began{};            // its last process, on our clock
    int short_lives = 0;     // in a row
    Time due = kNever;       // when it is started again; kNever: it was, or will not be
    bool held = false;       // the budget has no room for it, if it is charged
    bool escalated = false;  // its death is the gang's
  };
  // A death that is not charged yet. It is when every machine has answered a PING that was sent
  // kSettle after it: what it followed from would have ended the generation by then.
  struct Uncharged {
    uint32_t rank = 0;
    Time settled{};
    Time asked = kNever;                      // a stamp: PINGs with a later one were sent since
    std::optional<FailureContext> held = {};  // judged then, where the rank waits for it
  };

  void BringBack(Time now, FailureContext context, const FailureDecision& decision);
  void Start(uint32_t rank);
  void Charge();

  const Config config_;
  const FailurePolicy& policy_;
  const Roster& roster_;
  Counters& counters_;
  Outbox& outbox_;
  Generation generation_;
  std::map<uint32_t, Rank> ranks_;  // that have died in this generation
  Time last_death_ = Time::min();
  std::vector<Uncharged> uncharged_;
  std::optional<Failure> failure_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_COORDINATOR_ALONE_RANKS_H_
