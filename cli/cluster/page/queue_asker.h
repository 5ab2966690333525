// QueueAsker: asks Kueue's visibility API for the waiting Workloads of LocalQueues (subresource
// pendingworkloads). It has one viewer's rights and serves all pages of that viewer.
//
// Bounded: at most kMostQueues queues, each once in kAgain, and the first kMostWorkloads of each.
// If a page looks at more than four queues, they share kMostInAll. On the loop's thread.
#ifndef LOCKSTEP_CLI_CLUSTER_PAGE_QUEUE_ASKER_H_
#define LOCKSTEP_CLI_CLUSTER_PAGE_QUEUE_ASKER_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/time.h"
#include "cli/cluster/connection.h"
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

// Of an answer of the API, by Workload.
std::map<std::string, QueuePlace> ReadPlaces(const std::string& answer);

class QueueAsker {
 public:
  static constexpr size_t kMostQueues = 32;
  static constexpr size_t kMostWorkloads = 1000;
  static constexpr size_t kMostInAll = 4000;
  static constexpr Duration kAgain = seconds(15);

  struct Known {
    std::map<std::string, QueuePlace> places;  // by Workload
    std::string note;                          // why they are not known
    bool asking = false;
    Time asked{};
  };

  QueueAsker(EventLoop* loop, Connection* connection) : loop_(loop), connection_(connection) {}
  QueueAsker(const QueueAsker&) = delete;
  QueueAsker& operator=(const QueueAsker&) = delete;

  // `changed`: a place or a note is another one now. Until Forget.
  uint64_t Listen(std::function<void()> changed);
  void Forget(uint64_t listener) { listeners_.erase(listener); }

  // Somebody looks at these queues. Asks those that were not asked within kAgain. `queues`: how
  // many that page looks at. False: too many others are known.
  bool Want(const LocalQueue& queue, size_t queues);
  // Null: it was not asked.
  const Known* Find(const LocalQueue& queue) const;

  // How many of a queue's Workloads are asked for by somebody who looks at so many queues.
  static size_t LimitOf(size_t queues);

 private:
  void OnAnswer(const LocalQueue& queue, const kube::ApiResult<std::string>& answer);

  EventLoop* loop_;
  Connection* connection_;
  std::map<LocalQueue, Known> queues_;
  std::map<uint64_t, std::function<void()>> listeners_;
  uint64_t last_listener_ = 0;
  Lifetime lifetime_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_PAGE_QUEUE_ASKER_H_
