// The machines of a job as its pods show them, and how a machine's current attempt ended.
#ifndef LOCKSTEP_OPERATOR_POLICY_MACHINES_H_
#define LOCKSTEP_OPERATOR_POLICY_MACHINES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/gang/bodies.h"
#include "operator/policy/snapshot.h"

namespace lockstep::control {

enum class Life : uint8_t {
  kNone,      // no attempt: nothing is to run
  kToCreate,  // its attempt is recorded, its pod is not made yet
  kPending,   // not scheduled
  kWaiting,   // on a node; its worker container does not run yet
  kRunning,
  kEnded,  // the worker container terminated, or the pod failed as a whole
  kGone,   // the pod was there and is not any more, or its node is
};

struct Machine {
  uint32_t index = 0;
  uint32_t attempt = 0;
  Life life = Life::kNone;
  const kube::PodView* pod = nullptr;         // of this attempt
  const kube::PodView* last_seen = nullptr;   // the same; or as it was when it went away
  std::vector<const kube::PodView*> earlier;  // of lower attempts
};

// By index, 0 .. status.attempts.size() - 1.
std::vector<Machine> Machines(const Snapshot& snapshot);

// Pods that belong to no current machine: their index is beyond the gang, or there is no gang. Not
// those of an epoch that is yet to be heard of.
std::vector<const kube::PodView*> Leftovers(const Snapshot& snapshot);

// Whether the worker container is over, so that nothing it started can be alive.
bool IsOver(const kube::PodView& pod);
// The kernel ended the whole container for memory. Where it ended one rank (cgroup v1), the runtime
// gives that reason to whatever end the container comes to later.
bool WasOutOfMemory(const kube::ContainerState& worker);

// Every lower attempt of the machine was seen to be over, or there is none.
bool PredecessorsDead(const Memory& memory, const Machine& machine);

enum class EndKind : uint8_t {
  kVerdict,        // its message carries the job's verdict
  kConfiguration,  // the agent could not work with what it was told
  kOutOfMemory,    // the container went over its limit: the application's failure
  kAsked,          // drained, evicted or preempted: costs no budget
  kRejected,       // the node would not have it: tried elsewhere, later
  kLost,           // anything else: a machine failure
};

// How a machine whose life is kEnded or kGone came to its end.
struct End {
  EndKind kind = EndKind::kLost;
  std::string what;  // "its agent was killed by SIGKILL on node a"
  std::optional<core::Termination> message;
};
End EndOf(const Snapshot& snapshot, const Machine& machine);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_MACHINES_H_
