// The JSON that an action sends: of the object it makes, or of the patch.
#ifndef LOCKSTEP_OPERATOR_CONTROL_ACTION_OBJECT_H_
#define LOCKSTEP_OPERATOR_CONTROL_ACTION_OBJECT_H_

#include <string>

#include "base/result.h"
#include "operator/control/caches.h"
#include "operator/control/decision.h"
#include "operator/control/job_record.h"
#include "operator/control/pod_object.h"

namespace lockstep::control {

// NotFound: the coordinator's Service, whose address a pod is told, is gone meanwhile.
Result<std::string> ObjectOf(const Action& action, const JobRecord& record, const Caches& caches,
                             AgentDelivery delivery);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROL_ACTION_OBJECT_H_
