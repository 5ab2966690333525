// Views: the fields that the operator reads of the objects it watches. A pod of 8 KB of JSON takes
// a few hundred bytes. decode.h fills them. Absent strings are empty, absent numbers 0 unless said
// otherwise. Plain values: one thread at a time.
#ifndef LOCKSTEP_OPERATOR_KUBE_VIEWS_H_
#define LOCKSTEP_OPERATOR_KUBE_VIEWS_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fingerprint.h"
#include "base/text/quantity.h"
#include "base/wall_time.h"

namespace lockstep::kube {

// The types that have a cache.
enum class Watched : uint8_t {
  kTrainingJobs,
  kPods,
  kServices,
  kSlices,
  kNodes,
  kWorkloads,
  kFlavors,
  kClaims,
};
inline constexpr size_t kWatchedTypes = 8;

struct ObjectName {
  std::string name_space;  // empty for a cluster's own objects
  std::string name;

  friend auto operator<=>(const ObjectName&, const ObjectName&) = default;
};

struct ObjectMeta {
  std::string name;
  std::string name_space;
  std::string uid;
  std::string resource_version;
  std::string owner_uid;  // of the owner reference with controller=true
  int64_t generation = 0;
  WallTime created;
  std::optional<WallTime> deleted;  // deletionTimestamp: to be gone by then

  friend bool operator==(const ObjectMeta&, const ObjectMeta&) = default;
};

struct ContainerState {
  enum class Kind : uint8_t { kNone, kWaiting, kRunning, kTerminated };

  Kind kind = Kind::kNone;
  int32_t exit_code = 0;
  int32_t signal = 0;
  std::string reason;   // waiting: ImagePullBackOff; terminated: Error, OOMKilled
  std::string message;  // terminated: the termination message, as kubelet kept it
  std::optional<WallTime> started;
  std::optional<WallTime> finished;

  friend bool operator==(const ContainerState&, const ContainerState&) = default;
};

enum class PodPhase : uint8_t { kUnknown, kPending, kRunning, kSucceeded, kFailed };

struct PodView {
  ObjectMeta meta;
  std::string job;       // label lockstep.dev/job, less what marks a spare
  int32_t machine = -1;  // label lockstep.dev/machine; -1 absent or no number
  uint32_t attempt = 0;  // label lockstep.dev/attempt; 0 absent or no number
  int32_t spare = -1;    // label lockstep.dev/spare of a spare's pod; -1: it is none
  PodPhase phase = PodPhase::kUnknown;
  bool taken = false;       // gate kueue.x-k8s.io/admission: Kueue counts it as a job of its own
  bool scheduled = false;   // condition PodScheduled
  bool ready = false;       // condition Ready
  bool unprepared = false;  // condition PodReadyToStartContainers=False: no volumes or no network
  std::string node;
  std::string pod_ip;
  std::string host_ip;
  std::string schedule_reason;   // of condition PodScheduled=False: Unschedulable,
  std::string schedule_message;  // SchedulingGated
  std::string reason;            // status.reason: Evicted, TopologyAffinityError, ...
  std::string message;           // status.message
  std::string disruption;        // reason of condition DisruptionTarget=True
  ContainerState worker;         // the container named `worker`
  std::string init_name;         // of the first init container that waits or failed
  ContainerState init;           // its state

  friend bool operator==(const PodView&, const PodView&) = default;
};

struct JobView {
  ObjectMeta meta;
  std::string json;  // the whole object in one line, less managedFields
  // Why no more of the object is kept than its status; "": all of it is.
  std::string refusal;
  bool begun = false;  // its status tells of a gang, and of no end

  friend bool operator==(const JobView&, const JobView&) = default;
};

struct ServiceView {
  ObjectMeta meta;
  std::string job;                           // label lockstep.dev/job
  std::string cluster_ip;                    // "None" when headless
  bool selects = false;                      // it has a selector
  std::optional<uint32_t> selector_attempt;  // selector lockstep.dev/attempt

  friend bool operator==(const ServiceView&, const ServiceView&) = default;
};

// An EndpointSlice that this operator writes.
struct SliceView {
  ObjectMeta meta;
  std::string job;  // label lockstep.dev/job
  // The Fingerprint of each endpoint's targetRef.uid and first address, in order.
  uint64_t endpoints = Fingerprint().value();

  friend bool operator==(const SliceView&, const SliceView&) = default;
};

// What Kueue admits: one for each job that is queued.
struct WorkloadView {
  ObjectMeta meta;
  std::string job;   // label lockstep.dev/job
  std::string json;  // as of JobView, less the templates of its pods

  friend bool operator==(const WorkloadView&, const WorkloadView&) = default;
};

// A kind of nodes that Kueue gives quota of.
struct FlavorView {
  ObjectMeta meta;
  std::string json;  // as of JobView

  friend bool operator==(const FlavorView&, const FlavorView&) = default;
};

// The Lease by which an operator has the jobs of a namespace to itself.
struct ClaimView {
  ObjectMeta meta;
  std::string holder;   // empty: nobody any more
  int64_t seconds = 0;  // that it lasts without a change

  friend bool operator==(const ClaimView&, const ClaimView&) = default;
};

inline constexpr size_t kMostResources = 32;
inline constexpr size_t kMostSigns = 32;

struct NodeView {
  ObjectMeta meta;
  bool ready = false;                           // condition Ready=True
  bool unreachable = false;                     // taint node.kubernetes.io/unreachable
  bool out_of_service = false;                  // taint node.kubernetes.io/out-of-service
  bool unschedulable = false;                   // cordoned
  std::optional<std::string> suspect;           // annotation lockstep.dev/suspect: why
  std::vector<std::string> taints;              // "key:NoSchedule", the first kMostSigns of them
  std::vector<std::string> conditions;          // "KernelDeadlock=True", likewise; without Ready
  std::map<std::string, Quantity> allocatable;  // by resource, the first kMostResources of them

  friend bool operator==(const NodeView&, const NodeView&) = default;
};

// The job that an object was made for, by its label; "" for jobs and what is of no job.
inline std::string_view JobOf(const PodView& pod) { return pod.job; }
inline std::string_view JobOf(const ServiceView& service) { return service.job; }
inline std::string_view JobOf(const SliceView& slice) { return slice.job; }
inline std::string_view JobOf(const WorkloadView& workload) { return workload.job; }
inline std::string_view JobOf(const JobView&) { return {}; }
inline std::string_view JobOf(const FlavorView&) { return {}; }
inline std::string_view JobOf(const NodeView&) { return {}; }
inline std::string_view JobOf(const ClaimView&) { return {}; }

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_VIEWS_H_
