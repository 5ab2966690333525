// MachineObservation: the observed state of one attempt of a machine, the same for a pod of a
// cluster and an agent process on one computer. Observers make it (for pods:
// operator/controller/observe/observe_pod.h). It is the policies' only source about machines. Plain
// values.
#ifndef LOCKSTEP_OPERATOR_POLICY_FACTS_OBSERVATION_H_
#define LOCKSTEP_OPERATOR_POLICY_FACTS_OBSERVATION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "base/wall_time.h"

namespace lockstep::control {

// The budget that an end is charged to.
enum class Payer : uint8_t {
  kMachine,  // maxMachineReplacements; none where the machine was asked to leave
  kSuspect,  // likewise, but maxRestarts once it has ended the same way on another node
  kJob,      // maxRestarts
};

// How an attempt ended. No process that it started can be alive.
struct MachineEnd {
  bool agent_ran = true;  // false: it failed without a report of its agent
  std::string container;  // the failed container; "": the machine as a whole
  // exit code of its agent or of `container`; -1: ended by a signal, or not known
  int exit_code = -1;
  int signal = 0;           // signal that killed it; 0: none, or not known
  std::string termination;  // the message that its agent left; "" for none
  std::string reason;       // reason beside the code: StartError, Evicted
  std::string message;      // details of the reason, for users
  Payer payer = Payer::kMachine;
  bool out_of_memory = false;  // it exceeded its memory limit, and the kernel killed all of it
  bool asked = false;          // it was asked to leave: drained, evicted, preempted
  std::string asked_for;       // why, if known
  bool rejected = false;       // its node refused it
  bool misaligned = false;     // because its resources are not on one NUMA node

  friend bool operator==(const MachineEnd&, const MachineEnd&) = default;
};

// Why an attempt that has a node does not start.
struct StartTrouble {
  bool agent = true;        // the worker container; else a container that must run before it
  std::string reason;       // ImagePullBackOff
  std::string message;      // for users
  std::string container{};  // that does not start
  Payer payer = Payer::kSuspect;

  friend bool operator==(const StartTrouble&, const StartTrouble&) = default;
};

enum class Stage : uint8_t {
  kUnplaced,  // it has no node
  kPlaced,    // it has one; its agent does not run yet
  kRunning,
};

enum class NodeState : uint8_t {
  kWell,  // or not known
  kUnreachable,
  kOutOfService,  // a user declared that nothing runs on it
  kGone,
};

struct MachineObservation {
  std::string name;  // ID to stop it by
  std::string uid;   // unique among all objects that have or had its name
  int32_t machine = -1;
  uint32_t attempt = 0;
  int32_t spare = -1;  // number of a spare, which is not a machine
  WallTime created{};
  std::optional<WallTime> leave_by;  // it was asked to leave; the latest time of its end
  Stage stage = Stage::kUnplaced;
  bool ready = false;               // its agent is ready
  std::optional<MachineEnd> end;    // in any stage
  bool all_ended = false;           // all other containers are over too
  std::optional<WallTime> started;  // its agent was
  std::string address;              // of its agent; "" while it has none
  std::string node;                 // "" while it has none
  NodeState node_state = NodeState::kWell;
  std::string sick;                     // why its node counts as sick; "": it does not
  Time sick_since{};                    // when this operator saw its first sign
  std::string unplaced_because;         // the scheduler's message
  bool place_is_its_own = false;        // it would not fit where another machine has left
  bool unprepared = false;              // its volumes or its network are not ready
  std::optional<StartTrouble> trouble;  // only while it is placed

  bool over() const { return end.has_value(); }

  friend bool operator==(const MachineObservation&, const MachineObservation&) = default;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_FACTS_OBSERVATION_H_
