#include "core/gang/roster/roster.h"

#include <algorithm>
#include <utility>

#include "core/gang/protocol/rules.h"

namespace lockstep::core {

Roster::Roster(uint32_t machines, const std::vector<uint32_t>& attempts)
    : slots_(machines), members_(Members::All(machines)) {
  for (uint32_t i = 0; i < machines; ++i) {
    slots_[i].machine = i;
    if (i < attempts.size()) slots_[i].lowest = attempts[i];
  }
}

Roster::Slot* Roster::Of(ConnectionId connection) {
  const auto found = machine_of_.find(connection);
  return found == machine_of_.end() ? nullptr : &slots_[found->second];
}

void Roster::Connect(Slot& slot, ConnectionId connection) {
  machine_of_[connection] = slot.machine;
  slot.connection = connection;
}

void Roster::Disconnect(Slot& slot) {
  machine_of_.erase(slot.connection);
  slot.connection = 0;
}

void Roster::Replace(Slot& slot, const Hello& hello, bool answered, Time out) {
  Slot fresh;
  fresh.machine = slot.machine;
  fresh.attempt = hello.attempt;
  fresh.lowest = slot.lowest;
  fresh.fenced = slot.fenced;
  fresh.twin = hello.attempt == slot.attempt;
  fresh.predecessor_confirmed = hello.predecessor_dead;
  fresh.lost_in = slot.lost_in;
  fresh.lost_at = slot.lost_at;
  fresh.lost_cause = slot.lost_cause;
  fresh.lost_how = slot.lost_how;
  if (answered) fresh.older_out = slot.older_out;
  // One that we never heard of has ranks of earlier coordinators alone: OldCoordinatorsOut.
  const bool ours = slot.attempt != 0;
  if (ours && !hello.predecessor_dead) {
    fresh.predecessor_out = std::max(slot.predecessor_out, out);
  }
  slot = std::move(fresh);
}

Time Roster::OldCoordinatorsOut(const Members& witnesses) const {
  const bool confirmed =
      std::all_of(begin(), end(), [](const Slot& slot) { return slot.predecessor_confirmed; });
  // and the connected agents have reported that their ranks are dead
  if (confirmed) return Time::min();
  Time first = kNever;
  for (const Slot& slot : slots_) {
    const bool tells = witnesses.Contains(slot.machine) || !Holds(Rule::kWitnessesTookPart);
    if (tells) first = std::min(first, slot.older_out);
  }
  return first == kNever && !Holds(Rule::kWaitForWitness) ? Time::min() : first;
}

bool Roster::NoRanksHere() const {
  return std::none_of(begin(), end(), [](const Slot& slot) {
    const bool kept = slot.keeps_ranks() && Holds(Rule::kHeldKeepsNone);
    const bool here = slot.connection != 0 && !slot.lost;
    return here && (MayHaveLiveRanks(slot.report.phase) || kept);
  });
}

bool Roster::NoneKept() const {
  return std::none_of(begin(), end(), [](const Slot& slot) {
    const bool here = slot.connection != 0 && !slot.lost;
    return here && (slot.keeps_ranks() || MayHaveLiveRanks(slot.report.phase));
  });
}

std::string Roster::Missing() const {
  std::string missing;
  for (const Slot& slot : gang()) {
    if (slot.present()) continue;
    if (missing.size() > 100) return missing + ", ...";
    missing += (missing.empty() ? "" : ", ") + std::to_string(slot.machine);
    if (slot.replace) missing += " (to be replaced)";
  }
  return missing;
}

}  // namespace lockstep::core
