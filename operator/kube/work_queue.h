// WorkQueue: which job to decide next. A job is in the queue at most once and is worked on by one
// caller at a time; an Add in the meantime makes it run once more. Of two priorities for one key
// the higher counts; namespaces take turns within a priority (fair_queue.h).
//
//   queue.Add(key, Priority::kNormal, now);               // an event
//   while (auto work = queue.Take(now)) {
//     ...                                  // decide; when all its writes are answered:
//     queue.Park(work->key, Watched::kPods, written_version, now);   // for each write
//     queue.AddAt(work->key, deadline, Priority::kNormal);
//     queue.Done(work->key, now, Outcome::kOk);
//   }
//   timer.WakeAt(queue.NextWake());
//
// Read your writes: a key parked on a resource version is handed out only when the cache has
// reached that version (Progress). After 5 s it is handed out as `stale`: its objects must then be
// read from the server (Cache::Put) before it is decided. One thread; time is passed in.
#ifndef LOCKSTEP_OPERATOR_KUBE_WORK_QUEUE_H_
#define LOCKSTEP_OPERATOR_KUBE_WORK_QUEUE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/time.h"
#include "operator/kube/fair_queue.h"
#include "operator/kube/views.h"

namespace lockstep::kube {

enum class Outcome : uint8_t {
  kOk,     // forgets earlier failures
  kRetry,  // again after backoff_min, doubled with each failure in a row, at most backoff_max
};

struct QueueOptions {
  Duration backoff_min = milliseconds(5);
  Duration backoff_max = seconds(60);
  Duration park_limit = seconds(5);
  bool by_namespace = false;  // each namespace has a cache that goes on by itself
};

struct Work {
  ObjectName key;
  Duration waited{0};  // since it could first have been taken
  bool stale = false;  // the cache did not reach its own writes in time; until Done(kOk)
};

class WorkQueue {
 public:
  explicit WorkQueue(QueueOptions options = {}) : options_(options) {}

  void Add(const ObjectName& key, Priority priority, Time now);
  // At `when`, or earlier if an earlier time is set already. An Add does not cancel it.
  void AddAt(const ObjectName& key, Time when, Priority priority);

  // The next key that may run; it is being worked on until Done. `may`: empty for all.
  std::optional<Work> Take(Time now, const MayTake& may = {});
  void Done(const ObjectName& key, Time now, Outcome outcome);

  // Only for a key in work: it runs once more when the cache has reached `version`. Of two versions
  // of one resource the later counts. A version that cannot be compared waits until the limit.
  void Park(const ObjectName& key, Watched resource, std::string_view version, Time now);
  // The cache of `resource`, in `name_space` where each has its own, stands at `version`.
  void Progress(Watched resource, std::string_view version, Time now,
                const std::string& name_space = {});

  // When Take can next return something that it does not return now; kNever if nothing is set.
  Time NextWake() const;
  // Keys that could run now, and those that wait for the cache.
  size_t depth() const { return ready_.size(); }
  size_t parked() const { return expiries_.size(); }

 private:
  // A key is in ready_, in work, parked, or none of these. `again`: a key in work or parked is to
  // run once more. Timers are independent of this.
  struct Entry {
    ObjectName key;
    Priority priority = Priority::kBackground;  // of the next run
    bool in_work = false;
    bool again = false;
    bool stale = false;
    int failures = 0;
    Time ready_since = kNever;  // kNever: not in ready_
    uint64_t turn = 0;          // among those of its priority and namespace
    Time timer = kNever;
    Priority timer_priority = Priority::kBackground;
    Time park_until = kNever;                          // kNever: not parked
    std::array<std::string, kWatchedTypes> parked_on;  // by Watched; "" not; "?" cannot be compared
  };
  // As resource versions are ordered: longer ones are later.
  struct ByVersion {
    bool operator()(const std::pair<std::string, Entry*>& a,
                    const std::pair<std::string, Entry*>& b) const {
      return std::tuple(a.first.size(), std::string_view(a.first), a.second) <
             std::tuple(b.first.size(), std::string_view(b.first), b.second);
    }
  };
  // How far the caches of a namespace have come, or those of all.
  struct Seen {
    std::array<std::set<std::pair<std::string, Entry*>, ByVersion>, kWatchedTypes> waiting_for;
    std::array<std::string, kWatchedTypes> versions;
  };

  Entry& Of(const ObjectName& key);
  static FairPlace PlaceOf(const Entry& entry) {
    return {entry.key.name_space, entry.priority, entry.turn};
  }
  Seen& SeenFor(const Entry& entry) {
    return seen_[options_.by_namespace ? entry.key.name_space : ""];
  }
  void Want(Entry& entry, Priority priority, Time now);
  void MakeReady(Entry& entry, Time now);
  void SetTimer(Entry& entry, Time when, Priority priority);
  void Unpark(Entry& entry, size_t resource);
  void EndPark(Entry& entry, Time now);
  void RunTimers(Time now);
  void ExpireParked(Time now);
  void DropIfIdle(Entry& entry);

  QueueOptions options_;
  uint64_t turns_ = 0;
  std::map<ObjectName, Entry> entries_;
  FairQueue<Entry*> ready_;
  std::set<std::pair<Time, Entry*>> timers_;
  std::set<std::pair<Time, Entry*>> expiries_;  // of parked ones
  std::map<std::string, Seen> seen_;
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_WORK_QUEUE_H_
