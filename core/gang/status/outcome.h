// Outcome: the job's outcome, derived from the end of a machine's agent. The operator and `lockstep
// run` both use it, so that neither runs a finished job again. Pure.
//
// The agent's last message may be missing, because the user's program can fill the file system that
// holds it. There are three sources, the most complete first:
//
//   message    what the agent left behind: the verdict with all that is known of it
//   status     the verdict that machine 0 told in its last answer to GET /status
//   exit code  0, 70 and 77: an agent leaves with them on a verdict only
#ifndef LOCKSTEP_CORE_GANG_STATUS_OUTCOME_H_
#define LOCKSTEP_CORE_GANG_STATUS_OUTCOME_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/gang/status/status_api.h"

namespace lockstep::core {

// How the agent of a machine's current attempt ended.
struct AgentEnd {
  uint32_t machine = 0;
  uint32_t attempt = 0;
  std::optional<int> exit_code = {};  // absent: a signal ended it, or its end is not known
  std::string_view message = {};      // "": it left none
};

// The verdict in machine 0's last answer; nullopt: it had none, or machine 0 was replaced since.
// `last` may be null. `machine0_attempt` is the highest recorded attempt.
std::optional<Termination> VerdictHeard(const GangStatus* last, uint32_t machine0_attempt);

// nullopt: the end does not decide the job; the machine is lost or has left.
std::optional<Termination> OutcomeOf(const AgentEnd& end, const GangStatus* last,
                                     uint32_t machine0_attempt);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_STATUS_OUTCOME_H_
