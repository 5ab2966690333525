// Decide: the operator's decision for one job, from its observed state and the time. Pure. Each
// policy has its own file; docs/internals/architecture.md explains their order.
//
//   Decision decision = Decide(snapshot, now);
#ifndef LOCKSTEP_OPERATOR_POLICY_DECIDE_H_
#define LOCKSTEP_OPERATOR_POLICY_DECIDE_H_

#include "operator/policy/facts/decision.h"
#include "operator/policy/facts/snapshot.h"

namespace lockstep::control {

Decision Decide(const Snapshot& snapshot, Now now);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_DECIDE_H_
