// QueuePlaces: at which place the Workloads of waiting jobs stand, as Kueue's visibility API says
// (LocalQueues' subresource pendingworkloads), asked with the viewer's own rights.
//
// Bounded: kMostQueues queues, and the first kMostWorkloads of each. One thread, the loop's.
#ifndef LOCKSTEP_CLI_CLUSTER_PAGE_QUEUE_PLACES_H_
#define LOCKSTEP_CLI_CLUSTER_PAGE_QUEUE_PLACES_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/loop/wake_timer.h"
#include "base/text/json.h"
#include "cli/cluster/connection.h"
#include "cli/cluster/jobs.h"
#include "operator/kube/api.h"

namespace lockstep::cli {

struct LocalQueue {
  std::string name_space;
  std::string name;
  friend auto operator<=>(const LocalQueue&, const LocalQueue&) = default;
};

// Counted from 1.
struct QueuePlace {
  int64_t in_queue = 0;
  int64_t in_cluster_queue = 0;
  friend bool operator==(const QueuePlace&, const QueuePlace&) = default;
};

// A job that waits in a queue.
struct QueuedJob {
  LocalQueue queue;
  std::string workload;
};

// The queue that a job's label names; "": none.
std::string QueueOf(const StoredJob& job);
// Absent: it does not wait in a queue.
std::optional<QueuedJob> WaitsInQueue(const StoredJob& job);
// Of an answer of the API, by Workload.
std::map<std::string, QueuePlace> ReadPlaces(const std::string& answer);

class QueuePlaces {
 public:
  static constexpr size_t kMostQueues = 32;
  static constexpr size_t kMostWorkloads = 1000;
  static constexpr Duration kAgain = seconds(15);

  // `changed`: a place or a note is another one now.
  QueuePlaces(EventLoop* loop, Connection* connection, std::function<void()> changed);
  QueuePlaces(const QueuePlaces&) = delete;
  QueuePlaces& operator=(const QueuePlaces&) = delete;

  // The queues in which jobs wait now. Those that are new are asked about at once, all of them
  // every kAgain.
  void Follow(const std::set<LocalQueue>& queues);
  std::optional<QueuePlace> Find(const QueuedJob& job) const;
  // Which places are not known, and why.
  std::vector<std::string> Notes() const;

 private:
  struct Known {
    std::map<std::string, QueuePlace> places;
    std::string note;
    bool asking = false;
  };

  void AskAll();
  void Ask(const LocalQueue& queue);
  void OnAnswer(const LocalQueue& queue, const kube::ApiResult<std::string>& answer);

  EventLoop* loop_;
  Connection* connection_;
  std::function<void()> changed_;
  std::map<LocalQueue, Known> queues_;
  bool too_many_ = false;
  WakeTimer timer_;
  Lifetime lifetime_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_PAGE_QUEUE_PLACES_H_
