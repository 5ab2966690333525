// The gang's fencing rules, by name; see base/rules.h.
#ifndef LOCKSTEP_CORE_GANG_PROTOCOL_RULES_H_
#define LOCKSTEP_CORE_GANG_PROTOCOL_RULES_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/rules.h"

namespace lockstep::core {

enum class Rule : uint8_t {
  // Each of these two is enough while both ends follow the protocol; the simulator switches off
  // both together.
  kRefuseLowerCoordinator,   // an agent obeys no coordinator below the highest it knows
  kCoordinatorFencesItself,  // a coordinator that hears of a higher one kills its ranks and exits
  kHigherAttemptWins,        // of two agents with one index the lower attempt is refused
  kHigherAttemptStopsGang,   // a higher attempt's HELLO stops the running generation
  kLeaseExpires,             // a lapsed lease kills this machine's ranks
  kLeaseFromOldestAnswer,    // `age` looks at the member that is silent for longest
  kLeaseFromSending,         // `age` counts from the sending of the answered PING
  kLapsedLeaseStaysLapsed,   // a lease that ran out is not renewed within its generation
  kLeaseGuardsAnnouncement,  // machine 0 reads the lease again before START and VERDICT
  kLowerLWaits,              // a lower L counts after every lease under the old one is out
  kWaitForPredecessor,       // a replaced agent's ranks are dead, or its lease is out, before START
  kWaitForOldCoordinator,    // likewise for every rank of an earlier coordinator
  kWaitForWitness,           // and not before a witness can confirm when that gang broke
  kWaitForStopped,           // every machine has confirmed its ranks dead, or is lost, before START
  kCommitNeedsFreshAnswers,  // a commit needs a PING sent after the request, answered by all
  kCommitNeedsLease,         // and a lease that is live when the yes is said
  kLaterAttemptsCount,     // a machine 0 below the attempts that the checkpoint volume knows leaves
  kStandstillEndsLease,    // a machine that stood still with its clock trusts no lease from before
  kMemoryNeedsEveryPart,   // a checkpoint in memory counts while every machine's part is held
  kStartDropsLaterMemory,  // what lies beyond the checkpoint that a START names is dropped
  kCopiesComeAgain,        // an agent that sends HELLO is asked again for the copies that it lacks
  kWriteNeedsEveryPart,    // what goes from memory to the folder gets its name with its last part
  kWritesAsItsOwnCommit,   // and as a commit of the generation that runs
  kEndWaitsForWrite,       // no gang ends before that, or before it is said what is not written
  kAskedExitsAreNoSuccess,  // a rank that exits 0 on SIGTERM has not finished
  kAloneIsCharged,          // a rank that is started again alone is charged like a gang
  kMeasuredBeforeStart,     // with preflight no rank starts on a machine that was not measured
  kKeptHaveLeft,            // a process lives on only once it has said that it left its generation
  kHeldKeepsNone,           // a gang that is held has no process that waits for a generation
  kWitnessesTookPart,       // of an earlier gang's end only those tell who were in it for certain
  // a machine that is left out of a generation has no ranks alive before START
  kLeftOutAreOut,
  // Each of these two is enough while both ends follow the protocol.
  kCodeBeforeStart,  // START waits until every member holds the code that it names
  kCodeBeforeRanks,  // a member without the code that START names starts no rank
  kStartNamesCode,   // ranks run the code that START names, not the newest that is held
  kKeptHaveTheCode,  // no process lives on into a generation that runs other code
};
constexpr auto NamesOf(Rule) {
  return std::to_array<const char*>({"RefuseLowerCoordinator",
                                     "CoordinatorFencesItself",
                                     "HigherAttemptWins",
                                     "HigherAttemptStopsGang",
                                     "LeaseExpires",
                                     "LeaseFromOldestAnswer",
                                     "LeaseFromSending",
                                     "LapsedLeaseStaysLapsed",
                                     "LeaseGuardsAnnouncement",
                                     "LowerLWaits",
                                     "WaitForPredecessor",
                                     "WaitForOldCoordinator",
                                     "WaitForWitness",
                                     "WaitForStopped",
                                     "CommitNeedsFreshAnswers",
                                     "CommitNeedsLease",
                                     "LaterAttemptsCount",
                                     "StandstillEndsLease",
                                     "MemoryNeedsEveryPart",
                                     "StartDropsLaterMemory",
                                     "CopiesComeAgain",
                                     "WriteNeedsEveryPart",
                                     "WritesAsItsOwnCommit",
                                     "EndWaitsForWrite",
                                     "AskedExitsAreNoSuccess",
                                     "AloneIsCharged",
                                     "MeasuredBeforeStart",
                                     "KeptHaveLeft",
                                     "HeldKeepsNone",
                                     "WitnessesTookPart",
                                     "LeftOutAreOut",
                                     "CodeBeforeStart",
                                     "CodeBeforeRanks",
                                     "StartNamesCode",
                                     "KeptHaveTheCode"});
}
static_assert(NamesOf(Rule{}).size() == static_cast<size_t>(Rule::kKeptHaveTheCode) + 1);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_PROTOCOL_RULES_H_
