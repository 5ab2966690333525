// The JSON that an action sends: of the object it makes, or of the patch.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_ACTION_OBJECT_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_ACTION_OBJECT_H_

#include <string>

#include "base/result.h"
#include "operator/controller/jobs/job_record.h"
#include "operator/controller/observe/caches.h"
#include "operator/objects/pod_object.h"
#include "operator/policy/facts/decision.h"

namespace lockstep::control {

// NotFound: the coordinator's Service, whose address a pod needs, is gone meanwhile.
Result<std::string> ObjectOf(const Action& action, const JobRecord& record, const Caches& caches,
                             AgentDelivery delivery);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_ACTION_OBJECT_H_
