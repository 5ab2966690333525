// WorkQueue: which job to decide next. A job stands in it at most once, is worked on by one at a
// time, and what happens to it meanwhile makes it run once more.
//
//   queue.Add(key, Priority::kNormal);                    // an event
//   while (auto work = queue.Take(now)) {
//     ... decide; when all its writes are answered:
//     queue.Park(work->key, Watched::kPods, written_version, now);   // for each write
//     queue.AddAt(work->key, deadline, Priority::kNormal);
//     queue.Done(work->key, now, Outcome::kOk);
//   }
//   wake at queue.NextWake();
//
// Read your writes: a key parked on a resource version is not handed out before the cache has come
// as far (Progress), and runs then. After 5 s it is handed out as `stale`: its objects must be read
// from the server (Cache::Put) before it is decided. One thread; time comes in.
#ifndef LOCKSTEP_OPERATOR_KUBE_WORK_QUEUE_H_
#define LOCKSTEP_OPERATOR_KUBE_WORK_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/time.h"
#include "operator/kube/views.h"

namespace lockstep::kube {

// Of two for one key the higher counts. First in, first out within one.
enum class Priority : uint8_t {
  kBackground,  // the first list after a start
  kNormal,
  kUrgent,  // a machine is lost, a job stops
};

enum class Outcome : uint8_t {
  kOk,     // forgets earlier failures
  kRetry,  // again after 5 ms, doubled with each failure in a row, at most a minute
};

struct QueueOptions {
  Duration backoff_min = milliseconds(5);
  Duration backoff_max = seconds(60);
  Duration park_limit = seconds(5);
};

struct Work {
  ObjectName key;
  Duration waited{0};  // since it could first have been taken
  bool stale = false;
};

class WorkQueue {
 public:
  explicit WorkQueue(QueueOptions options = {});
  ~WorkQueue();

  void Add(const ObjectName& key, Priority priority, Time now);
  // At `when`, or earlier if an earlier time is set already. An Add does not cancel it.
  void AddAt(const ObjectName& key, Time when, Priority priority);

  // The next key that may run; it is being worked on until Done.
  std::optional<Work> Take(Time now);
  void Done(const ObjectName& key, Time now, Outcome outcome);

  // Only while it is being worked on. Of two versions of one resource the later counts; one that
  // cannot be compared waits out the 5 s.
  void Park(const ObjectName& key, Watched resource, std::string_view version, Time now);
  // The cache of `resource` has reached `version`.
  void Progress(Watched resource, std::string_view version, Time now);

  // Forgets the key, its times and failures (the job is gone). Not while it is being worked on.
  void Forget(const ObjectName& key);

  // When Take can next return something that it does not return now; kNever if nothing is set.
  Time NextWake() const;
  // Keys that could run now.
  size_t depth() const;
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_WORK_QUEUE_H_
