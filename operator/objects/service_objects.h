// The two Services of a job, as JSON for the API server. Both publish addresses of pods that are
// not ready: the gang meets before any of them is.
#ifndef LOCKSTEP_OPERATOR_OBJECTS_SERVICE_OBJECTS_H_
#define LOCKSTEP_OPERATOR_OBJECTS_SERVICE_OBJECTS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "core/model/spec.h"

namespace lockstep::control {

// Gives each machine its stable name, <job>-<machine>.<job>, for users' programs.
std::string HeadlessServiceObject(const core::TrainingJob& job);

// The Service whose clusterIP leads to attempt `attempt` of machine 0 and to no other.
std::string CoordinatorServiceObject(const core::TrainingJob& job, uint32_t attempt);
// A merge patch (application/merge-patch+json) that leads it to another attempt, if the Service
// is still the one with this UID.
std::string CoordinatorServicePatch(std::string_view uid, uint32_t attempt);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_OBJECTS_SERVICE_OBJECTS_H_
