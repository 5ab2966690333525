// QueuePlaces: at which place the Workloads of a page's waiting jobs stand in their queues, asked
// (QueueAsker) while somebody looks at that page. One thread, the loop's.
#ifndef LOCKSTEP_CLI_CLUSTER_PAGE_QUEUE_PLACES_H_
#define LOCKSTEP_CLI_CLUSTER_PAGE_QUEUE_PLACES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/wake_timer.h"
#include "base/time.h"
#include "cli/cluster/jobs.h"
#include "cli/cluster/page/queue_asker.h"

namespace lockstep::cli {

// A job that waits in a queue.
struct QueuedJob {
  LocalQueue queue;
  std::string workload;
};

// The queue that a job's label names; "": none.
std::string QueueOf(const StoredJob& job);
// Absent: it does not wait in a queue.
std::optional<QueuedJob> WaitsInQueue(const StoredJob& job);

class QueuePlaces {
 public:
  // `asker` must outlive it. `changed`: a place or a note is another one now.
  QueuePlaces(EventLoop* loop, QueueAsker* asker, std::function<void()> changed);
  ~QueuePlaces();
  QueuePlaces(const QueuePlaces&) = delete;
  QueuePlaces& operator=(const QueuePlaces&) = delete;

  // The queues in which jobs wait now.
  void Follow(const std::set<LocalQueue>& queues);
  // Somebody gets the page now. Nothing is asked once that was PageServer::kShown ago.
  void Show();
  std::optional<QueuePlace> Find(const QueuedJob& job) const;
  // Which places are not known, and why.
  std::vector<std::string> Notes() const;

 private:
  void Ask();

  QueueAsker* asker_;
  std::set<LocalQueue> queues_;
  Time shown_;
  bool too_many_ = false;
  uint64_t listener_;
  WakeTimer timer_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_PAGE_QUEUE_PLACES_H_
