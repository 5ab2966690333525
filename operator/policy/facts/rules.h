// Rules of the operator, by name; see base/rules.h.
#ifndef LOCKSTEP_OPERATOR_POLICY_FACTS_RULES_H_
#define LOCKSTEP_OPERATOR_POLICY_FACTS_RULES_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/rules.h"

namespace lockstep::control {

enum class Rule : uint8_t {
  kSilenceIsCounted,      // that a member is not connected to machine 0 is no evidence
  kVerdictEndsAll,        // nothing is decided after it
  kCountersMerge,         // what a new coordinator has not heard of yet is not lost
  kPredecessorsSeenDead,  // an attempt whose end was not seen may be alive
  kLongLeaseRecorded,     // before machine 0 grants longer leases
  kVoidVerdicts,          // those of earlier attempts do not count
  kGoneMeansDead,         // else a gang whose pods all vanished unseen would wait for ever
  kAskedNeedsEvidence,    // a rank can send SIGTERM to its agent as well
  kSparesLeaveAtTheEnd,   // they hold nodes for a gang alone
  kWitnessesStay,        // of what ran before a change tells only who took part before and after it
  kSparesAreNotAwaited,  // longer than a moment: a pod that does not leave may be on a dead node
  kAdmittedBeforeMade,   // no pod of a queued job is made without an admission
  kLeftBeforeReleased,   // its quota is released when nothing of it runs
  kSilenceIsCharged,     // also for an elastic gang's machine on a live node
  kQuotaAskedForSince,   // what was admitted before a machine gave its share back is not for it
  kMovesNeedAPlace,      // a machine leaves a sick node only if another node is there for it
  kMovesAwaitACommit,    // and with nodeHealth AtCheckpoint only after a checkpoint
  kMovesAsPolicySays,    // and with nodeHealth Ignore never
};
constexpr auto NamesOf(Rule) {
  return std::to_array<const char*>({"SilenceIsCounted", "VerdictEndsAll", "CountersMerge",
                                     "PredecessorsSeenDead", "LongLeaseRecorded", "VoidVerdicts",
                                     "GoneMeansDead", "AskedNeedsEvidence", "SparesLeaveAtTheEnd",
                                     "WitnessesStay", "SparesAreNotAwaited", "AdmittedBeforeMade",
                                     "LeftBeforeReleased", "SilenceIsCharged", "QuotaAskedForSince",
                                     "MovesNeedAPlace", "MovesAwaitACommit", "MovesAsPolicySays"});
}
static_assert(NamesOf(Rule{}).size() == static_cast<size_t>(Rule::kMovesAsPolicySays) + 1);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_FACTS_RULES_H_
