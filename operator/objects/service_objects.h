// The two Services of a job, as JSON for the API server. They select no pods: where they lead, the
// operator's own EndpointSlices say (endpoint_slice.h).
#ifndef LOCKSTEP_OPERATOR_OBJECTS_SERVICE_OBJECTS_H_
#define LOCKSTEP_OPERATOR_OBJECTS_SERVICE_OBJECTS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "core/model/spec.h"

namespace lockstep::control {

// Gives each machine its stable name, <job>-<machine>.<job>, for users' programs.
std::string HeadlessServiceObject(const core::TrainingJob& job);

// The Service whose clusterIP leads to the current attempt of machine 0 and to no other.
std::string CoordinatorServiceObject(const core::TrainingJob& job);
// A merge patch (application/merge-patch+json) that leads one that selects pods, as older operators
// made it, to another attempt, if the Service is still the one with this UID.
std::string CoordinatorServicePatch(std::string_view uid, uint32_t attempt);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_OBJECTS_SERVICE_OBJECTS_H_
