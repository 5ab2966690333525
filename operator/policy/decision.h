// Decision: what Decide wants done for one job. Level-triggered: deciding again from the same
// snapshot gives the same Decision, and nothing is lost by carrying it out late.
#ifndef LOCKSTEP_OPERATOR_POLICY_DECISION_H_
#define LOCKSTEP_OPERATOR_POLICY_DECISION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/time.h"
#include "core/gang/coordinator.h"
#include "core/model/endpoints.h"
#include "core/status/status.h"
#include "operator/policy/snapshot.h"

namespace lockstep::control {

// What a gang needs before its machines: the key of its connections, names by which they find each
// other, and one address that leads to machine 0's current attempt.
struct MakeKey {};
struct MakeNames {};
struct MakeCoordinatorAddress {};
// One that leads by labels, as older operators made it.
struct MoveCoordinatorAddress {
  std::string uid;  // precondition
  uint32_t attempt = 0;
};
// Names or an address that lead by labels, so that the next ones go by slices; names that are not
// wanted.
struct DropNames {
  std::string uid;  // precondition
};
struct DropCoordinatorAddress {
  std::string uid;  // precondition
};
// Where names or the coordinator's address lead.
struct WriteSlice {
  core::SliceKey key;
  std::string uid;  // precondition; "": it is to be made
  std::vector<core::MachineEndpoint> endpoints;
};
struct StartMachine {
  uint32_t machine = 0;
  uint32_t attempt = 0;
  bool predecessor_dead = false;         // no earlier attempt of this machine can be alive
  std::vector<std::string> avoid_nodes;  // where its earlier attempts failed
  std::string spare_node;                // that a spare has left for it; "" for none
};
// What holds a node for a machine that may be lost.
struct StartSpare {
  uint32_t number = 0;
  std::vector<std::string> avoid_nodes;  // that would not have a machine
};
// A machine's attempt, or a spare. Asks it to leave; it is killed after the grace.
struct StopMachine {
  std::string name;
  std::string uid;                       // precondition
  std::optional<int64_t> grace_seconds;  // the job's own when absent
};
// What Kueue is to admit before machines are made.
struct MakeWorkload {
  int64_t pods = 0;
  std::string priority_class;  // "": none
  bool of_queues = false;      // the class is a WorkloadPriorityClass
  int32_t priority = 0;        // the class's, once it was read
  bool elastic = false;        // its pods may become fewer, and another Workload replace it
  uint32_t slice = 0;          // of WorkloadSeen
  std::string replaces;        // the Workload in whose place it is asked for; "": none
};
// Fewer pods than it was admitted for; or another number, before it is.
struct ResizeWorkload {
  std::string name;
  std::string version;  // precondition
  int64_t pods = 0;
};
// One condition of it, as only the job's owner knows.
struct TellWorkload {
  std::string name;
  std::string uid;  // precondition
  std::string type;
  bool holds = false;
  std::string reason;  // CamelCase
  std::string message;
};
// Evicted, and nothing of the job runs any more: Kueue may give what it held to others.
struct ReleaseWorkload {
  std::string name;
  std::string version;  // precondition
};
// One that MultiKueue has made for the job becomes the job's, as Kueue's own jobs have theirs: who
// finds it finds the job, and deletes both.
struct AdoptWorkload {
  std::string name;
  std::string version;  // precondition
};
// Both are preconditions: it may have been admitted since it was seen to wait.
struct DropWorkload {
  std::string name;
  std::string uid;
  std::string version;
};
// What a scheduler is to know before the pods of a gang are made.
struct MakePodGroup {
  core::PodGroupStatus group;
  int32_t machines = 0;
  uint32_t epoch = 0;  // in which they are made
  size_t api = 0;      // of those where PodGroups may be served
};
struct DropPodGroup {
  core::PodGroupStatus group;
};
// Whether the scheduler that placed its pods knows of it.
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
  std::optional<core::DesiredState> desired;  // what machine 0 is to know
  std::optional<core::JobStatus> status;      // what is seen; written last
  std::vector<EventNote> events;              // told once the write they belong to has succeeded
  int replacements = 0;                       // how many machines the intent replaces
  bool nothing_missing = false;               // of what the gang needs: a refusal is of no interest
  bool progress_waits = false;                // decide again when the job may tell its steps
  Memory memory;                              // to be remembered until the next call
  Time wake = kNever;                         // decide again then, though nothing happens
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_DECISION_H_
