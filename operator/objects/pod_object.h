// The pod of one machine and one attempt, as JSON for the API server: the user's template with
// Lockstep's parts (docs/reference/pods.md) added. Pure: the same arguments, the same bytes.
#ifndef LOCKSTEP_OPERATOR_OBJECTS_POD_OBJECT_H_
#define LOCKSTEP_OPERATOR_OBJECTS_POD_OBJECT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/text/quantity.h"
#include "core/model/spec.h"
#include "core/status/status.h"

namespace lockstep::control {

// How the agent's file gets into the user's image. The agent's image is in status.agent.
struct AgentDelivery {
  enum class Method : uint8_t {
    kInitContainer,  // copies it to a folder of the pod
    kImageVolume,    // Kubernetes 1.36 and later
  };
  Method method = Method::kInitContainer;
  std::string pull_policy = "IfNotPresent";
  // What a new job's status.agent.image would be; empty: that of every job.
  std::string newest_image{};
  std::string trainer_image{};         // for jobs that name no image
  std::string cuda_trainer_image{};    // for those that ask for GPUs; empty: trainer_image
  std::string spare_priority_class{};  // of spares; empty: the cluster's default
  // Requests of init container lockstep-install, by resource, for a namespace's LimitRange or
  // quota. Values below its own needs do not count.
  std::map<std::string, Quantity> resources{};
};

// Requests of init container lockstep-install, as the API server writes them; empty if there is
// none.
std::map<std::string, std::string> InstallerAmounts(const AgentDelivery& delivery);

// The values that differ from pod to pod.
struct PodRequest {
  uint32_t machine = 0;
  uint32_t attempt = 1;
  bool predecessor_dead = true;            // no earlier attempt of this machine can be alive
  std::string coordinator_ip{};            // of Service <job>-coordinator
  std::string key_secret{};                // the name of the Secret with the key
  std::vector<std::string> avoid_nodes{};  // where earlier attempts failed
  std::string spare_node{};                // that a spare has left for it; "" for none
};

// The first epoch of a job: its pods are <job>-<machine>, later ones <job>-<machine>-r<attempt>.
inline constexpr int64_t kFirstEpoch = 1;
// Most bytes of the environment variable with the agent's configuration, as in execve.
inline constexpr size_t kMaxConfigVariable = size_t{128} << 10;

std::string PodNameOf(const core::TrainingJob& job, uint32_t machine, uint32_t attempt);

// `job` has passed Validate and its metadata holds namespace and UID; of `status`, attempts, epoch,
// agent and machine_lost_after count. TooLarge: the job's configuration is beyond
// kMaxConfigVariable. Invalid: the coordinator's address is no IP.
Result<std::string> PodObject(const core::TrainingJob& job, const core::JobStatus& status,
                              const PodRequest& request, const AgentDelivery& delivery);

// The pod of a spare: a machine's image, resources and place, and nothing else of the job: no key,
// no variable; all its containers run an agent that waits. With `claims` it names the job's claims,
// so that the scheduler chooses a node where they can be used, and mounts none. `job` as above.
Result<std::string> SparePodObject(const core::TrainingJob& job, const std::string& agent_image,
                                   uint32_t number, const std::vector<std::string>& avoid_nodes,
                                   const AgentDelivery& delivery, bool claims = false);

// A machine's requests and node constraints as a pod template, for counting by a queue.
Result<std::string> CountedTemplate(const core::TrainingJob& job, const AgentDelivery& delivery);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_OBJECTS_POD_OBJECT_H_
