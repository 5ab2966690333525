// A job that waits in a queue for its share of the cluster, as policies see it: Kueue's Workload of
// it (docs/guides/queues.md). Plain values; operator/controller/observe/workload_object.h reads
// them of the object.
#ifndef LOCKSTEP_OPERATOR_POLICY_FACTS_QUEUE_H_
#define LOCKSTEP_OPERATOR_POLICY_FACTS_QUEUE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/wall_time.h"

namespace lockstep::control {

// Labels of the job.
inline constexpr const char* kQueueLabel = "kueue.x-k8s.io/queue-name";
inline constexpr const char* kPriorityLabel = "kueue.x-k8s.io/priority-class";
inline constexpr const char* kLongestLabel = "kueue.x-k8s.io/max-exec-time-seconds";
// Annotation of the job and of its Workloads: "true", and it is a chain of slices.
inline constexpr const char* kSliced = "kueue.x-k8s.io/elastic-job";

// Whether the cluster has queues.
enum class Queues : uint8_t {
  kUnknown,  // they were not read yet
  kAbsent,   // Kueue is not there, or its objects may not be read
  kThere,
};

// One for each job; of an elastic job that gives quota back and asks for it again, slices: the one
// that its pods stand on, one that is to replace it with a larger one, and those that were.
struct WorkloadSeen {
  std::string name;
  uint32_t slice = 0;  // the epoch in which it was asked for in place of another; 0: of no other
  std::string uid;
  std::string version;  // of the object
  bool deleting = false;
  bool owned = false;    // by the job, and goes with it
  bool elastic = false;  // it says that it is one of slices
  std::string queue;
  int64_t count = 0;  // of pods
  bool active = true;
  bool holds_quota = false;  // until it is released, though it be evicted
  bool waits = false;        // Kueue has judged it, and there is no quota for it
  bool admitted = false;
  bool evicted = false;  // its pods are to go
  WallTime evicted_at{};
  bool finished = false;
  bool replaced = false;           // finished, because a larger one was admitted
  std::optional<bool> pods_ready;  // as Kueue was told
  bool recovers = false;           // it knew that they were, and they no longer are
  std::string reason;              // Kueue's, of why it is admitted or not
  std::string message;             // likewise
  std::string cluster_queue;
  std::map<std::string, std::string> flavors;  // by resource

  friend bool operator==(const WorkloadSeen&, const WorkloadSeen&) = default;
};

struct QueueSeen {
  Queues queues = Queues::kUnknown;
  std::string name;      // of the queue; "": the job has left it while its gang runs
  std::string prebuilt;  // name of the Workload that is not ours to make or delete; "": it is
  std::optional<WorkloadSeen> workload;
  std::optional<WorkloadSeen> growth{};  // waits to replace it
  std::vector<WorkloadSeen> past{};      // others of the job, oldest first
};

// Which of the job's Workloads is which.
void Sort(std::vector<WorkloadSeen> workloads, QueueSeen* queue);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_FACTS_QUEUE_H_
