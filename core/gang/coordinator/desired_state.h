// The operator's desired state of a gang: what PUT /gang brings to machine 0's agent.
#ifndef LOCKSTEP_CORE_GANG_COORDINATOR_DESIRED_STATE_H_
#define LOCKSTEP_CORE_GANG_COORDINATOR_DESIRED_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/failure/failure.h"
#include "core/gang/protocol/messages.h"
#include "core/terms/members.h"

namespace lockstep::core {

// Level-triggered: sending it again changes nothing.
struct DesiredState {
  struct DesiredStop {
    StopReason reason = StopReason::kSuspended;
    Duration grace{};
    std::string words = {};  // who asked and why; "": see the reason
    friend bool operator==(const DesiredStop&, const DesiredStop&) = default;
  };
  // A request for a new generation. The attempt of machine 0 that it names carries it out once.
  // Later attempts begin no generation that is older than the request.
  struct Restart {
    std::string id;
    uint32_t attempt = 0;    // machine 0's attempt when the request was recorded
    bool at_commit = false;  // true: after the next commit of the running generation; false: now
    std::string words;       // "alice: new learning rate"
    friend bool operator==(const Restart&, const Restart&) = default;
  };
  // The program's code that the ranks' folder holds from the next generation on.
  struct Code {
    std::string digest;
    // A user edits the code now. If ranks fail before its first step, the gang waits for the next
    // edit, and nothing is charged.
    bool watched = false;
    // On a cluster: no generation before this one ran it.
    Generation generation = {};
    friend bool operator==(const Code&, const Code&) = default;
  };
  struct Health {
    Duration hang_timeout{};
    bool restart_hangs = false;
    friend bool operator==(const Health&, const Health&) = default;
  };
  // A container that ended.
  struct Terminated {
    uint32_t machine = 0;
    uint32_t attempt = 0;
    Cause cause = Cause::kMachineLost;  // or kOutOfMemory
    friend bool operator==(const Terminated&, const Terminated&) = default;
  };
  // Every attempt of `machine` below `attempt` has ended.
  struct Fenced {
    uint32_t machine = 0;
    uint32_t attempt = 0;
    friend bool operator==(const Fenced&, const Fenced&) = default;
  };
  std::string job_uid;
  uint32_t epoch = 0;
  int64_t observed_generation = 0;  // of the TrainingJob's spec
  // Older agents refuse the actions of rules about metrics. So such a rule is empty in `policy`,
  // where it matches nothing, and stands in `metric_rules` (SplitMetricRules, JoinMetricRules).
  std::optional<FailurePolicy> policy;
  std::vector<FailureRule> metric_rules = {};
  std::optional<Health> health;
  Counters machine_failures;  // out_of_memory, replacements and replacements_base count
  std::optional<DesiredStop> stop;
  std::optional<Restart> restart;
  std::optional<Code> code;
  std::vector<Terminated> terminated;
  std::vector<Fenced> fenced;
  // The members of generations from now on, with machine 0; for a running generation, from its next
  // checkpoint on. Empty: all machines.
  Members members;
  // The members that took part in a generation that an earlier machine 0 may still run.
  Members witnesses;

  friend bool operator==(const DesiredState&, const DesiredState&) = default;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_COORDINATOR_DESIRED_STATE_H_
