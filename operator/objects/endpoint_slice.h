// The EndpointSlices of a job's two Services, as JSON for the API server: where these lead, said by
// the operator itself. No controller of the cluster has a say in them.
#ifndef LOCKSTEP_OPERATOR_OBJECTS_ENDPOINT_SLICE_H_
#define LOCKSTEP_OPERATOR_OBJECTS_ENDPOINT_SLICE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/endpoints.h"
#include "core/model/spec.h"

namespace lockstep::control {

// Label selectors: of all that this operator writes, and of one job's, whose name follows.
inline constexpr std::string_view kSlicesOfJobs =
    "endpointslice.kubernetes.io/managed-by=lockstep.dev,lockstep.dev/job";
inline constexpr std::string_view kSlicesOfJob =
    "endpointslice.kubernetes.io/managed-by=lockstep.dev,lockstep.dev/job=";

// "gpt-coordinator", "gpt-0", and with "-ipv6" those of the other family.
std::string EndpointSliceName(std::string_view job, const core::SliceKey& key);
// Absent: the slice does not belong to the job.
std::optional<core::SliceKey> SliceKeyOf(std::string_view job, std::string_view name);

// The slice as it is to stand; `uid` of the one that is there already, or "".
std::string EndpointSliceObject(const core::TrainingJob& job, const core::SliceKey& key,
                                const std::string& uid,
                                const std::vector<core::MachineEndpoint>& endpoints);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_OBJECTS_ENDPOINT_SLICE_H_
