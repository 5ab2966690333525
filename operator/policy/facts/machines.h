// The machines of a job, from the observations, and how a machine's current attempt ended.
#ifndef LOCKSTEP_OPERATOR_POLICY_FACTS_MACHINES_H_
#define LOCKSTEP_OPERATOR_POLICY_FACTS_MACHINES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/gang/status/status_api.h"
#include "operator/policy/facts/snapshot.h"

namespace lockstep::control {

enum class Life : uint8_t {
  kNone,      // no attempt, or no quota for it: nothing must run
  kToCreate,  // its attempt is recorded and not made yet
  kPending,   // it has no node
  kWaiting,   // on a node; its agent does not run yet
  kRunning,
  kEnded,  // nothing it started can be alive
  kGone,   // its pod or its node is gone
};

struct Machine {
  uint32_t index = 0;
  uint32_t attempt = 0;
  Life life = Life::kNone;
  const MachineObservation* seen = nullptr;        // observation of this attempt
  const MachineObservation* last_seen = nullptr;   // the same; or its last state before it was gone
  std::vector<const MachineObservation*> earlier;  // observations of lower attempts
  // waits on a node that an earlier attempt still holds
  bool sent_to_its_dead = false;
};

// By index, 0 .. status.attempts.size() - 1.
std::vector<Machine> Machines(const Snapshot& snapshot);

// The agents' report of exactly this attempt; null: none. `status` lists machines in order, as
// agents do.
const core::GangStatus::MachineStatus* ReportOf(const core::GangStatus& status,
                                                const Machine& machine);

// Observations that belong to no machine's attempts: there is no such machine, or the status that
// ordered the attempt is lost. Without those of an epoch that is not known yet.
std::vector<const MachineObservation*> Leftovers(const Snapshot& snapshot);

// Whether every lower attempt of the machine is over or counts as dead, or there is none.
bool PredecessorsDead(const AttemptsState& memory, const Machine& machine);

enum class EndKind : uint8_t {
  kVerdict,        // the job is over, as core/gang/status/outcome.h finds
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

// How a machine whose life is kEnded or kGone ended.
struct End {
  EndKind kind = EndKind::kLost;
  std::string what;  // "its agent was killed by SIGKILL on node a"
  std::optional<core::Termination> message;
  Payer payer = Payer::kMachine;
};
End EndOf(const Snapshot& snapshot, const Machine& machine);

// The verdict in machine 0's last answer, before its end was observed.
std::optional<core::Termination> VerdictHeard(const Snapshot& snapshot);

// "container worker" or "init container fetch".
std::string ContainerText(const std::string& name);

// Whether the epoch is above the recorded one and close enough to be plausible: status may have
// gone back that far.
bool IsReachableEpoch(const core::JobStatus& status, uint32_t epoch);

// "machine 3".
inline std::string NameOf(const Machine& machine) {
  return "machine " + std::to_string(machine.index);
}

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_FACTS_MACHINES_H_
