// Decision: the actions that Decide returns for one job. Level-triggered: the same snapshot gives
// the same Decision, and carrying it out late loses nothing.
#ifndef LOCKSTEP_OPERATOR_POLICY_FACTS_DECISION_H_
#define LOCKSTEP_OPERATOR_POLICY_FACTS_DECISION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/time.h"
#include "core/gang/coordinator/coordinator.h"
#include "core/model/endpoints.h"
#include "core/status/status.h"
#include "operator/policy/facts/snapshot.h"

namespace lockstep::control {

// The objects that a gang needs before its machines: the key of its connections, the names of its
// machines, and one address of machine 0's current attempt.
struct MakeKey {};
struct MakeNames {};
struct MakeCoordinatorAddress {};
// A Service that selects pods by labels, from an older operator.
struct MoveCoordinatorAddress {
  std::string uid;  // precondition
  uint32_t attempt = 0;
};
// Deletes Services that select pods by labels, so that the next ones use slices; and names that are
// not requested.
struct DropNames {
  std::string uid;  // precondition
};
struct DropCoordinatorAddress {
  std::string uid;  // precondition
};
// The endpoints of the names or of the coordinator's address.
struct WriteSlice {
  core::SliceKey key;
  std::string uid;  // precondition; "": to be created
  std::vector<core::MachineEndpoint> endpoints;
};
struct StartMachine {
  uint32_t machine = 0;
  uint32_t attempt = 0;
  bool predecessor_dead = false;         // no earlier attempt of this machine can be alive
  std::vector<std::string> avoid_nodes;  // where its earlier attempts failed
  std::string spare_node;                // node that a spare has left for it; "": none
};
// A spare: it holds a node for the replacement of a lost machine.
struct StartSpare {
  uint32_t number = 0;
  std::vector<std::string> avoid_nodes;  // nodes that refused a machine
  bool claims = false;                   // it must be where the job's volumes can be
};
// Asks a machine's attempt or a spare to leave; it is killed after the grace.
struct StopMachine {
  std::string name;
  std::string uid;                       // precondition
  std::optional<int64_t> grace_seconds;  // absent: the job's own
};
// The Workload that Kueue must admit before machines are made.
struct MakeWorkload {
  int64_t pods = 0;
  std::string priority_class;  // "": none
  bool of_queues = false;      // the class is a WorkloadPriorityClass
  int32_t priority = 0;        // value of the class, once it was read
  bool elastic = false;        // it may shrink, and another Workload may replace it
  uint32_t slice = 0;          // of WorkloadSeen
  std::string replaces;        // the Workload that it replaces; "": none
};
// Sets fewer pods than were admitted; or any number before the admission.
struct ResizeWorkload {
  std::string name;
  std::string version;  // precondition
  int64_t pods = 0;
};
// Sets one of its conditions, which only the job's owner knows.
struct TellWorkload {
  std::string name;
  std::string uid;  // precondition
  std::string type;
  bool holds = false;
  std::string reason;  // CamelCase
  std::string message;
};
// It is evicted and nothing of the job runs, so Kueue may give its quota to others.
struct ReleaseWorkload {
  std::string name;
  std::string version;  // precondition
};
// Makes the job the owner of a Workload that MultiKueue created for it, as for Kueue's own jobs.
// Then the Workload leads to the job, and both are deleted together.
struct AdoptWorkload {
  std::string name;
  std::string version;  // precondition
};
// Both are preconditions, because it may have been admitted since it was observed.
struct DropWorkload {
  std::string name;
  std::string uid;
  std::string version;
};
// The PodGroup that a scheduler needs before the pods of a gang are made.
struct MakePodGroup {
  core::PodGroupStatus group;
  int32_t machines = 0;
  uint32_t epoch = 0;  // epoch in which they are made
  size_t api = 0;      // one of the APIs that may serve PodGroups
};
struct DropPodGroup {
  core::PodGroupStatus group;
};
// Checks whether the scheduler that placed its pods knows the PodGroup.
struct AskOfPodGroup {
  core::PodGroupStatus group;
};
// The TrainingJob itself, and with it everything it owns.
struct DeleteJob {};

using Action =
    std::variant<MakeKey, MakeNames, MakeCoordinatorAddress, MoveCoordinatorAddress, DropNames,
                 DropCoordinatorAddress, WriteSlice, StartMachine, StartSpare, StopMachine,
                 MakeWorkload, ResizeWorkload, TellWorkload, ReleaseWorkload, AdoptWorkload,
                 DropWorkload, MakePodGroup, DropPodGroup, AskOfPodGroup, DeleteJob>;

// For `kubectl describe`.
struct EventNote {
  bool warning = false;
  std::string reason;  // CamelCase
  std::string note;
};

struct Decision {
  // Written by compare-and-swap before anything else happens; the rest is then decided again.
  std::optional<core::JobStatus> intent;
  std::vector<Action> actions;                // carried out in parallel
  std::optional<core::DesiredState> desired;  // the desired state of machine 0
  std::optional<core::JobStatus> status;      // the observed status; written last
  std::vector<EventNote> events;              // recorded once their write has succeeded
  int replacements = 0;                       // how many machines the intent replaces
  // no object of the gang is missing, so a refusal no longer counts
  bool nothing_missing = false;
  bool progress_waits = false;  // decide again when the job may write its steps
  PolicyState memory;           // kept until the next call
  Time wake = kNever;           // decide again then, even if nothing happens
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_FACTS_DECISION_H_
