// MachineObservation: what is seen of one attempt of a machine, in words that hold for a pod of a
// cluster and for an agent process of one computer alike. Whoever observes makes it (of pods:
// operator/controller/observe/observe_pod.h); policies read nothing else of machines. Plain values.
#ifndef LOCKSTEP_OPERATOR_POLICY_OBSERVATION_H_
#define LOCKSTEP_OPERATOR_POLICY_OBSERVATION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/wall_time.h"

namespace lockstep::control {

// Which budget an end is charged to.
enum class Payer : uint8_t {
  kMachine,  // maxMachineReplacements; none where the machine was asked to leave
  kSuspect,  // likewise, but maxRestarts once it has ended the same way on another node
  kJob,      // maxRestarts
};

// How an attempt ended, so that nothing it started can be alive.
struct MachineEnd {
  bool agent_ran = true;  // false: it failed without its agent, which told nothing
  std::string container;  // then: that failed; "": the machine as a whole
  int exit_code = -1;  // of its agent, or of `container`; -1: a signal ended it, or nobody saw how
  int signal = 0;      // that killed it; 0: none, or not known
  std::string termination;  // the message that its agent left; "" for none
  std::string reason;       // where a code does not say all: StartError, Evicted
  std::string message;      // more about the reason, for people
  Payer payer = Payer::kMachine;
  bool out_of_memory = false;  // it went over its memory limit, and the kernel ended all of it
  bool asked = false;          // it was asked to leave: drained, evicted, preempted
  std::string asked_for;       // why, where that is known
  bool rejected = false;       // its node would not have it
  bool misaligned = false;     // because its resources are not on one NUMA node

  friend bool operator==(const MachineEnd&, const MachineEnd&) = default;
};

// Why an attempt that has a node does not start.
struct StartTrouble {
  bool agent = true;        // else what must run before it
  std::string reason;       // ImagePullBackOff
  std::string message;      // for people
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
  kOutOfService,  // somebody said that nothing on it runs any more
  kGone,
};

struct MachineObservation {
  std::string name;  // by which it is stopped
  std::string uid;   // no other one that has or had its name has the same
  int32_t machine = -1;
  uint32_t attempt = 0;
  int32_t spare = -1;  // of what waits for a machine to be lost, its number; it is no machine
  WallTime created{};
  std::optional<WallTime> leave_by;  // it was asked to go, by then at the latest
  Stage stage = Stage::kUnplaced;
  bool ready = false;               // its agent says so
  std::optional<MachineEnd> end;    // whatever its stage was
  bool all_ended = false;           // what else ran beside its agent is over, too
  std::optional<WallTime> started;  // its agent was
  std::string address;              // of its agent; "" while it has none
  std::string node;                 // "" while it has none
  NodeState node_state = NodeState::kWell;
  std::string unplaced_because;         // the scheduler's words
  bool place_is_its_own = false;        // it would find no place where another machine has left one
  bool unprepared = false;              // its volumes or its network are not there
  std::optional<StartTrouble> trouble;  // only while it is placed

  bool over() const { return end.has_value(); }

  friend bool operator==(const MachineObservation&, const MachineObservation&) = default;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_OBSERVATION_H_
