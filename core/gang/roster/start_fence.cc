#include "core/gang/roster/start_fence.h"

#include <algorithm>

#include "core/gang/protocol/rules.h"

namespace lockstep::core {

bool StartFence::Reaches(const Members& machines) const {
  return std::ranges::all_of(machines, [this](uint32_t machine) {
    return roster_[machine].present() && lease_.of(machine).has_echo;
  });
}

bool StartFence::OldRanksMayLive(Time now, const Members& witnesses) const {
  for (const Roster::Slot& slot : roster_) {
    if (roster_.TakesPart(slot) ? MayRunOldRanks(now, slot)
                                : !IsOut(now, slot) && Holds(Rule::kLeftOutAreOut))
      return true;
  }
  return now < roster_.OldCoordinatorsOut(witnesses) && Holds(Rule::kWaitForOldCoordinator);
}

bool StartFence::MayRunOldRanks(Time now, const Roster::Slot& member) const {
  const bool ours = member.report.generation.attempt == attempt_;
  const Rule rule = ours ? Rule::kWaitForStopped : Rule::kWaitForOldCoordinator;
  // Processes that an earlier coordinator's stop kept cannot continue under this one.
  const bool kept = member.keeps_ranks() && !ours;
  if ((MayHaveLiveRanks(member.report.phase) || kept) && Holds(rule)) return true;
  return now < member.predecessor_out && Holds(Rule::kWaitForPredecessor);
}

// Its ranks are dead, as it or an observer of its end reports. Or their lease has run out; a
// machine that is left out gets no longer lease.
bool StartFence::IsOut(Time now, const Roster::Slot& left_out) const {
  if (now < left_out.predecessor_out) return false;
  if (!MayHaveLiveRanks(left_out.report.phase)) return true;
  return now >= lease_.SilentSince(left_out.machine) + lease_.LossLength(now);
}

}  // namespace lockstep::core
