// The operator's mind: what is to be done for one job, from what is seen of it and the time. Pure.
// docs/internals/architecture.md says why in this order; each policy has its own file.
//
//   Decision decision = Decide(snapshot, now);
#ifndef LOCKSTEP_OPERATOR_POLICY_DECIDE_H_
#define LOCKSTEP_OPERATOR_POLICY_DECIDE_H_

#include "operator/policy/decision.h"
#include "operator/policy/snapshot.h"

namespace lockstep::control {

// Of spec.managedBy.
inline constexpr const char* kManager = "lockstep.dev/operator";
inline constexpr const char* kMultiKueue = "kueue.x-k8s.io/multikueue";

Decision Decide(const Snapshot& snapshot, Now now);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_DECIDE_H_
