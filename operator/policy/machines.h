// The machines of a job as what is seen shows them, and how a machine's current attempt ended.
#ifndef LOCKSTEP_OPERATOR_POLICY_MACHINES_H_
#define LOCKSTEP_OPERATOR_POLICY_MACHINES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/gang/status_api.h"
#include "operator/policy/snapshot.h"

namespace lockstep::control {

enum class Life : uint8_t {
  kNone,      // no attempt, or no quota for it: nothing is to run
  kToCreate,  // its attempt is recorded and not made yet
  kPending,   // it has no node
  kWaiting,   // on a node; its agent does not run yet
  kRunning,
  kEnded,  // nothing it started can be alive
  kGone,   // it was there and is not any more, or its node is
};

struct Machine {
  uint32_t index = 0;
  uint32_t attempt = 0;
  Life life = Life::kNone;
  const MachineObservation* seen = nullptr;        // of this attempt
  const MachineObservation* last_seen = nullptr;   // the same; or as it was when it went away
  std::vector<const MachineObservation*> earlier;  // of lower attempts
  bool sent_to_its_dead = false;                   // waits on a node that such a one does not leave
};

// By index, 0 .. status.attempts.size() - 1.
std::vector<Machine> Machines(const Snapshot& snapshot);

// What agents say of exactly this attempt, of a status that lists machines in order, as agents do;
// null: nothing.
const core::GangStatus::MachineStatus* Told(const core::GangStatus& status, const Machine& machine);

// What belongs to no machine's attempts: there is no such machine, or the status that ordered the
// attempt is lost. Nothing of an epoch that is yet to be heard of.
std::vector<const MachineObservation*> Leftovers(const Snapshot& snapshot);

// Every lower attempt of the machine was seen to be over or taken for dead, or there is none.
bool PredecessorsDead(const AttemptsMemory& memory, const Machine& machine);

enum class EndKind : uint8_t {
  kVerdict,        // the job is over, as core/gang/outcome.h finds
  kConfiguration,  // the agent could not work with what it was told
  kOutOfMemory,    // it went over its memory limit: the application's failure
  kJob,            // of the job's own doing, likewise
  kAsked,          // drained, evicted, preempted or deleted: costs no budget
  kSlow,           // preflight found it slow, and asks for few: costs no budget
  kRejected,       // the node would not have it: tried elsewhere, later
  kOvertaken,      // machine 0 found later attempts than status knows: the epoch goes above them
  kSilent,         // nothing is heard of it, though its node is called ready
  kLost,           // anything else: a machine failure
};

// How a machine whose life is kEnded or kGone came to its end.
struct End {
  EndKind kind = EndKind::kLost;
  std::string what;  // "its agent was killed by SIGKILL on node a"
  std::optional<core::Termination> message;
  Payer payer = Payer::kMachine;
};
End EndOf(const Snapshot& snapshot, const Machine& machine);

// The verdict that the job's machine 0 told in its last answer, before its end was seen.
std::optional<core::Termination> VerdictHeard(const Snapshot& snapshot);

// "container worker" or "init container fetch".
std::string ContainerText(const std::string& name);

// Above the recorded epoch, and near enough to be believed: status may have gone back that far.
bool IsReachableEpoch(const core::JobStatus& status, uint32_t epoch);

// "machine 3".
inline std::string NameOf(const Machine& machine) {
  return "machine " + std::to_string(machine.index);
}

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_MACHINES_H_
