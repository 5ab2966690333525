// Roster: the agent that stands in for each machine of the gang, what it last said, and what is
// known of its predecessors there. The coordinator owns it. Pure.
//
// Fencing: every rank of an earlier coordinator is dead once any one of its members has been silent
// to it for L, or once the deaths of all its members are confirmed.
#ifndef LOCKSTEP_CORE_GANG_ROSTER_H_
#define LOCKSTEP_CORE_GANG_ROSTER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <ranges>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/failure/failure.h"
#include "core/gang/messages.h"
#include "core/terms/members.h"

namespace lockstep::core {

using ConnectionId = uint64_t;

class Roster {
 public:
  struct Slot {
    uint32_t machine = 0;
    uint32_t attempt = 0;  // 0: never joined
    uint32_t lowest = 0;   // attempts below are refused
    ConnectionId connection = 0;
    bool draining = false;
    bool leaving = false;  // its agent goes, and does nothing more
    bool lost = false;
    bool replace = false;
    std::string slow;             // why `replace`, where preflight says so
    bool straggles = false;       // to be replaced, though it is none the worse for the others
    bool confirmed_dead = false;  // its container was seen to end
    // Every attempt below this one was seen to end, as the operator said last; 0: it says nothing.
    uint32_t fenced = 0;
    bool twin = false;  // another agent had its attempt before it, of whose end that says nothing
    bool predecessor_confirmed = false;
    Time predecessor_out = Time::min();  // when every earlier attempt's ranks are surely dead
    Report report;

    Generation lost_in;           // the generation whose end this machine's loss is
    std::optional<Time> lost_at;  // it was last heard of, where it is lost for its silence
    Cause lost_cause = Cause::kMachineLost;
    std::string lost_how;

    // When every lease of an older coordinator is out, as this machine witnesses: it does not
    // answer that one any more. kNever: it cannot tell, for an agent that may still be alive and
    // answer there stands behind it.
    Time older_out = kNever;
    bool acked = false;      // the verdict
    bool dismissed = false;  // it drains, and was told that it may leave
    std::string address;     // an IP, as its HELLO said
    Usage usage;             // as it told last

    std::optional<Memory> memory;        // nullopt: this connection has not said what it holds
    std::optional<MemoryPart> fetching;  // what it was asked to get, and holds or has failed to get

    // It hears what is sent, and does it.
    bool within_reach() const { return connection != 0 && !lost && !leaving; }
    // It can take part in a generation.
    bool present() const { return within_reach() && !draining && !replace; }
    // Processes there wait for the next generation.
    bool keeps_ranks() const {
      return report.phase == MemberPhase::kStopped && !report.kept.empty();
    }
    bool has_stopped(Generation generation) const {
      return report.generation == generation && report.phase == MemberPhase::kStopped;
    }
  };

  // `attempts`: of each machine when this machine 0 was made; empty: not known.
  Roster(uint32_t machines, const std::vector<uint32_t>& attempts);

  size_t size() const { return slots_.size(); }
  Slot& operator[](size_t machine) { return slots_[machine]; }
  const Slot& operator[](size_t machine) const { return slots_[machine]; }
  auto begin() { return slots_.begin(); }
  auto end() { return slots_.end(); }
  auto begin() const { return slots_.begin(); }
  auto end() const { return slots_.end(); }

  // ---- who takes part ----
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
  // Null: nobody said HELLO there, or whoever did has another connection by now.
  Slot* Of(ConnectionId connection);
  void Connect(Slot& slot, ConnectionId connection);
  void Disconnect(Slot& slot);

  // ---- fencing ----
  // Another agent stands in for the machine. `answered`: its predecessor has answered us, and is
  // dead at `out` if it is not so yet.
  void Replace(Slot& slot, const Hello& hello, bool answered, Time out);
  // When every rank of an earlier coordinator is dead: the first that can witness it will do.
  // kNever: nobody can, for all were replaced and no death was confirmed; the old gang may be
  // whole, and at work behind a partition. `witnesses` took part in whatever it ran.
  Time OldCoordinatorsOut(const Members& witnesses) const;
  // No machine that is connected runs ranks. Those of a lost one are dead, though its connection
  // may outlive a node that has no power.
  bool NoRanksHere() const;

  // The machines that cannot take part, "0, 3 (to be replaced)".
  std::string Missing() const;

 private:
  std::vector<Slot> slots_;  // by machine
  Members members_;
  std::map<ConnectionId, uint32_t> machine_of_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_ROSTER_H_
