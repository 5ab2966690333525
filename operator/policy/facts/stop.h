// A stop of the whole gang, and what follows it.
#ifndef LOCKSTEP_OPERATOR_POLICY_FACTS_STOP_H_
#define LOCKSTEP_OPERATOR_POLICY_FACTS_STOP_H_

#include <string>

#include "core/gang/protocol/messages.h"

namespace lockstep::control {

struct Stop {
  core::StopReason reason = core::StopReason::kSuspended;
  bool fails = false;     // the job ends with it
  bool queues = false;    // the job waits for its turn
  bool releases = false;  // the gang releases its nodes and tries again later
  std::string message;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_FACTS_STOP_H_
