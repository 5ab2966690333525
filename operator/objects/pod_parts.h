// The parts that make a pod. Private to operator/objects/pod_*.cc.
#ifndef LOCKSTEP_OPERATOR_OBJECTS_POD_PARTS_H_
#define LOCKSTEP_OPERATOR_OBJECTS_POD_PARTS_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "core/model/spec.h"
#include "core/status/status.h"
#include "operator/objects/object_parts.h"
#include "operator/objects/pod_object.h"

namespace lockstep::control::pod {

inline constexpr const char* kAgentVolume = "lockstep-agent";
inline constexpr const char* kAgentFolder = "/lockstep";  // read-only in the worker
inline constexpr const char* kKeyFolder = "/etc/lockstep";
inline constexpr const char* kRunFolder = "/run/lockstep";
inline constexpr const char* kCacheFolder = "/var/cache/lockstep";
inline constexpr const char* kSharedMemory = "/dev/shm";

inline constexpr const char* kIpVariable = "LOCKSTEP_POD_IP";

// The value of LOCKSTEP_CONFIG as it stands in a pod: kubelet makes `$` of `$$` and the pod's
// address of our $(LOCKSTEP_POD_IP).
Result<std::string> ConfigVariable(const core::TrainingJob& job, const core::JobStatus& status,
                                   const PodRequest& request, const AgentDelivery& delivery,
                                   const std::string& termination_path);

// The user's `worker` container with the agent as its program.
Json Worker(Json from_template, const core::TrainingJob& job, const AgentDelivery& delivery,
            const std::string& config);

// The agent's file from `agent_image`, the key, the agent's own folder, /dev/shm and checkpoints:
// volumes of the pod, mounts of its worker.
void AddVolumes(const core::TrainingJob& job, const std::string& agent_image,
                const std::string& key_secret, const AgentDelivery& delivery, Json& spec,
                Json& worker);

// The first of these alone.
void AddAgent(const std::string& agent_image, const AgentDelivery& delivery, Json& spec,
              Json& worker);

// Writes the template's and the spec's placement into the pod's spec.
void Place(const core::TrainingJob& job, const std::vector<std::string>& avoid_nodes,
           const std::string& spare_node, Json& spec);
// Likewise into a spare's.
void PlaceSpare(const core::TrainingJob& job, const std::vector<std::string>& avoid_nodes,
                Json& spec);

// Parts of a pod's spec that a machine's and a spare's have in common: who may run it, and what a
// template leaves unset.
void SetCommonFields(const core::Spec& wanted, Json& spec);
// The template's `worker` container; an empty one, put first, where it has none.
Json& WorkerIn(Json& spec);

}  // namespace lockstep::control::pod

#endif  // LOCKSTEP_OPERATOR_OBJECTS_POD_PARTS_H_
