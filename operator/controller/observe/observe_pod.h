// Observations of pods for policies: translates the cluster's terms for how pods wait, fail and
// leave into those of machines. Pure functions.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_OBSERVE_POD_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_OBSERVE_POD_H_

#include "operator/kube/views.h"
#include "operator/policy/facts/observation.h"

namespace lockstep::control {

// Null: there is no such node.
NodeState StateOf(const kube::NodeView* node);

// `node`: of the node that the pod is on.
MachineObservation ObservationOf(const kube::PodView& pod, NodeState node = NodeState::kWell);

// The worker container is over, or the pod as a whole: nothing it started can be alive.
bool IsOver(const kube::PodView& pod);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_OBSERVE_POD_H_
