// Kueue's Workload of a job, which Lockstep writes itself: the object, its reading, the patches of
// its status, and what an admission means for pods. docs/guides/queues.md tells the whole.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_WORKLOAD_OBJECT_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_WORKLOAD_OBJECT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/wall_time.h"
#include "core/model/spec.h"
#include "operator/objects/pod_object.h"
#include "operator/policy/facts/decision.h"
#include "operator/policy/facts/queue.h"

namespace lockstep::control {

// The field manager of its status' conditions that are ours.
inline constexpr const char* kStatusManager = "lockstep-operator";

// "trainingjob-gpt-1b9d6bcd": another for each job that had the name. Of a later slice with "-s7".
std::string WorkloadName(std::string_view job, std::string_view uid, uint32_t slice = 0);

// The Workload that MultiKueue has made for the job on this cluster; "": none.
std::string PrebuiltWorkload(const core::TrainingJob& job);

// The value of a PriorityClass or a WorkloadPriorityClass.
int32_t ReadPriority(const std::string& json);

// `job` has passed Validate and its metadata holds labels, namespace and UID. Invalid: a label that
// Kueue cannot read, or no pod template.
Result<std::string> WorkloadObject(const core::TrainingJob& job, const MakeWorkload& make,
                                   const AgentDelivery& delivery);

// `json`: the object. What is missing or of another type is left at its default.
WorkloadSeen ReadWorkload(const std::string& json);

// A server-side apply of one condition, with PodsReady as it is: what was applied once and is left
// out later is taken away, but for what Kueue's admission applied as well. That is the condition's
// type, and alone it is refused. `json`: the object as it was last seen.
std::string WorkloadCondition(const std::string& json, const TellWorkload& tell, WallTime now);

// A JSON patch of its size. Conflict: `json` is not of the version that was decided on.
Result<std::string> WorkloadResize(const std::string& json, const ResizeWorkload& resize);

// A JSON patch of its status that gives back what it holds. Conflict: `json` is not of the version
// that was decided on.
Result<std::string> WorkloadRelease(const std::string& json, const ReleaseWorkload& release,
                                    WallTime now);

// A JSON patch by which it becomes the job's. Conflict: as above.
Result<std::string> WorkloadAdoption(const std::string& json, const AdoptWorkload& adopt,
                                     const core::TrainingJob& job);

// Why the pods of this job cannot be what its admission says; "" when they can. `flavors`: the
// objects of those that the Workload was given.
std::string AdmissionConflict(const core::TrainingJob& job, const std::string& workload,
                              const std::vector<std::string>& flavors);

// `pod` with what its admission asks for: labels of nodes and tolerations of its flavors, what
// admission checks add, whose pod it is, and where Kueue gives each pod a node, the gate behind
// which it waits for that. Invalid: these contradict the pod.
Result<std::string> AdmittedPod(const std::string& pod, const std::string& workload,
                                const std::vector<std::string>& flavors);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_WORKLOAD_OBJECT_H_
