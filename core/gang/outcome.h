// Outcome: what the end of a machine's agent says about the job. The operator and `lockstep run`
// both decide by it, so that a job that is over is never run again. Pure.
//
// The agent's last message may be missing, because the user's program can fill the space in which
// it lies. Three sources are asked, the fullest first:
//
//   message    what the agent left behind: the verdict with all that is known of it
//   status     the verdict that machine 0 told in its last answer to GET /status
//   exit code  0, 70 and 77: an agent leaves with them on a verdict only
#ifndef LOCKSTEP_CORE_GANG_OUTCOME_H_
#define LOCKSTEP_CORE_GANG_OUTCOME_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/gang/status_api.h"

namespace lockstep::core {

// How the agent of a machine's current attempt ended.
struct AgentEnd {
  uint32_t machine = 0;
  uint32_t attempt = 0;
  std::optional<int> exit_code = {};  // absent: a signal ended it, or its end was not seen
  std::string_view message = {};      // "": it left none
};

// The verdict in machine 0's last answer; nullopt: it told none, or has been replaced since. `last`
// may be null. `machine0_attempt` is the highest that is recorded.
std::optional<Termination> VerdictHeard(const GangStatus* last, uint32_t machine0_attempt);

// nullopt: the end says nothing about the job, and the machine is lost or has left.
std::optional<Termination> OutcomeOf(const AgentEnd& end, const GangStatus* last,
                                     uint32_t machine0_attempt);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_OUTCOME_H_
