// The PodGroup by which a scheduler knows a gang, and what joins a pod to it
// (docs/guides/queues.md).
#ifndef LOCKSTEP_OPERATOR_OBJECTS_POD_GROUP_H_
#define LOCKSTEP_OPERATOR_OBJECTS_POD_GROUP_H_

#include <string>
#include <vector>

#include "core/model/spec.h"
#include "core/status/status.h"
#include "operator/kube/api.h"
#include "operator/objects/object_parts.h"

namespace lockstep::control {

// The APIs that may serve this scheduler's PodGroups; the first one that a cluster has is used.
std::vector<kube::Resource> PodGroupsOf(core::GangScheduler gang);
// The missing component of a cluster that serves none of them.
const char* ProviderOf(core::GangScheduler gang);

// `job` has passed Validate and its metadata holds namespace and UID. `machines`: all that are to
// get a node, or none.
std::string PodGroupObject(const core::TrainingJob& job, const core::PodGroupStatus& group,
                           int32_t machines, const kube::Resource& resource);

// Joins a machine's pod to the group.
void JoinPodGroup(const core::PodGroupStatus& group, Json& metadata, Json& spec);

// Pods of some gangs join by a field that an API server may drop without a word, also where it is
// asked to be strict. A pod that joins and is not to be made, to see by its answer; "" of others.
std::string JoiningPod(const core::PodGroupStatus& group);
bool HasJoined(const std::string& pod);
// The missing feature of an API server that dropped it.
inline constexpr const char* kJoiningGate = "the feature gate GenericWorkload of its API server";

// Whether its scheduler says what has become of it, as one that doesn't know it cannot.
bool IsHeeded(const std::string& pod_group);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_OBJECTS_POD_GROUP_H_
