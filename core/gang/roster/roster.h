// Roster: each machine's present agent, its last report, and the known facts about its
// predecessors. The coordinator owns it. Pure.
//
// Fencing: every rank of an earlier coordinator is dead once any of its members has not answered it
// for L, or once the deaths of all its members are confirmed.
#ifndef LOCKSTEP_CORE_GANG_ROSTER_ROSTER_H_
#define LOCKSTEP_CORE_GANG_ROSTER_ROSTER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <ranges>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/failure/failure.h"
#include "core/gang/protocol/messages.h"
#include "core/terms/members.h"

namespace lockstep::core {

using ConnectionId = uint64_t;

class Roster {
 public:
  struct Slot {
    uint32_t machine = 0;
    uint32_t attempt = 0;  // 0: never joined
    uint32_t lowest = 0;   // agents with a lower attempt are refused
    ConnectionId connection = 0;
    bool draining = false;
    bool leaving = false;  // its agent is leaving and does nothing more
    bool lost = false;
    bool replace = false;
    std::string slow;             // why `replace`, where preflight says so
    bool straggles = false;       // to be replaced, although the others can run with it
    bool confirmed_dead = false;  // its container has ended
    // Every attempt below this one has ended, as the operator last reported; 0: no report.
    uint32_t fenced = 0;
    bool twin = false;  // an earlier agent with this attempt may still be alive
    bool predecessor_confirmed = false;
    Time predecessor_out = Time::min();  // when all ranks of earlier attempts are surely dead
    Report report;

    Generation lost_in;           // the generation that this machine's loss ended
    std::optional<Time> lost_at;  // its last answer, if it is lost for its silence
    Cause lost_cause = Cause::kMachineLost;
    std::string lost_how;

    // When every lease of an older coordinator has ended, because this machine no longer answers
    // that coordinator. kNever: not known, because an earlier agent of this machine may still be
    // alive and answer it.
    Time older_out = kNever;
    bool acked = false;      // the verdict
    bool dismissed = false;  // it drains, and may leave
    std::string address;     // an IP, as its HELLO said
    Usage usage;             // as last reported

    std::optional<HeldParts> memory;     // nullopt: not reported on this connection
    std::optional<MemoryPart> fetching;  // the part that it was last asked to fetch

    std::optional<HeldCode> code;  // nullopt: not reported on this connection
    std::string fetching_code;     // the version that it fetches; "": none
    uint32_t fetches_from = 0;     // the machine that it fetches from

    // It is connected and obeys.
    bool within_reach() const { return connection != 0 && !lost && !leaving; }
    // It can take part in a generation.
    bool present() const { return within_reach() && !draining && !replace; }
    // Processes on the machine wait for the next generation.
    bool keeps_ranks() const {
      return report.phase == MemberPhase::kStopped && !report.kept.empty();
    }
    bool has_stopped(Generation generation) const {
      return report.generation == generation && report.phase == MemberPhase::kStopped;
    }
  };

  // `attempts`: each machine's attempt when this machine 0 was made; empty: not known.
  Roster(uint32_t machines, const std::vector<uint32_t>& attempts);

  size_t size() const { return slots_.size(); }
  Slot& operator[](size_t machine) { return slots_[machine]; }
  const Slot& operator[](size_t machine) const { return slots_[machine]; }
  auto begin() { return slots_.begin(); }
  auto end() { return slots_.end(); }
  auto begin() const { return slots_.begin(); }
  auto end() const { return slots_.end(); }

  // ---- members ----
  // All machines, at first.
  const Members& members() const { return members_; }
  void SetMembers(Members members) { members_ = std::move(members); }
  bool TakesPart(const Slot& slot) const { return members_.Contains(slot.machine); }
  // The members' slots, in order.
  auto gang() {
    return members_ | std::views::transform([this](uint32_t m) -> Slot& { return slots_[m]; });
  }
  auto gang() const {
    return members_ |
           std::views::transform([this](uint32_t m) -> const Slot& { return slots_[m]; });
  }

  // ---- connections ----
  // Null: no agent sent HELLO there, or its agent has another connection by now.
  Slot* Of(ConnectionId connection);
  void Connect(Slot& slot, ConnectionId connection);
  void Disconnect(Slot& slot);

  // ---- fencing ----
  // Another agent stands in for the machine. `answered`: its predecessor has answered this
  // coordinator, and is dead at `out` at the latest.
  void Replace(Slot& slot, const Hello& hello, bool answered, Time out);
  // When every rank of an earlier coordinator is dead; one witness is enough. kNever: there is no
  // witness, because all members were replaced and no death was confirmed. The old gang may be
  // complete and run behind a partition. `witnesses` are the members of that gang.
  Time OldCoordinatorsOut(const Members& witnesses) const;
  // Whether no connected machine runs ranks. Ranks of a lost machine are dead, even if its
  // connection outlives a node that lost power.
  bool NoRanksHere() const;
  // Whether no connected machine has processes that wait for the next generation.
  bool NoneKept() const;

  // The machines that cannot take part, "0, 3 (to be replaced)".
  std::string Missing() const;

 private:
  std::vector<Slot> slots_;  // by machine
  Members members_;
  std::map<ConnectionId, uint32_t> machine_of_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_ROSTER_ROSTER_H_
