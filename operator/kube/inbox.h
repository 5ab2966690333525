// Inbox: passes the results of one request from a transport's threads to the thread that waits for
// them. Requests are numbered, so that late results of an abandoned request are dropped. Hold it by
// shared_ptr: it must outlive the last answer.
#ifndef LOCKSTEP_OPERATOR_KUBE_INBOX_H_
#define LOCKSTEP_OPERATOR_KUBE_INBOX_H_

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <utility>

#include "base/thread_annotations.h"
#include "base/time.h"

namespace lockstep::kube {

// `News` is default-constructible and has empty().
template <typename News>
class Inbox {
 public:
  // The next request's number. Drops the results of the last one.
  uint64_t Begin() {
    const MutexLock lock(&mutex_);
    news_ = {};
    changed_.notify_all();
    return ++number_;
  }

  // Take returns at once from now on.
  void Stop() {
    const MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  bool Stopping() {
    const MutexLock lock(&mutex_);
    return stopping_;
  }

  // change(News&).
  template <typename Change>
  void Put(uint64_t of, Change change) {
    PutWhen(of, [](const News&) { return true; }, change);
  }
  // The same, once has_room(const News&).
  template <typename HasRoom, typename Change>
  void PutWhen(uint64_t of, HasRoom has_room, Change change) {
    const MutexLock lock(&mutex_);
    while (of == number_ && !stopping_ && !has_room(std::as_const(news_))) changed_.wait(mutex_);
    if (of != number_ || stopping_) return;
    change(news_);
    changed_.notify_all();
  }

  // Waits for results. Empty at the deadline, or when stopping.
  News Take(Time until) {
    // condition_variable adds its clock to what it is given.
    constexpr Duration kLongestWait = hours(1);
    const MutexLock lock(&mutex_);
    while (news_.empty() && !stopping_) {
      const Duration left = until - BootTime();
      if (left <= Duration(0)) break;
      changed_.wait_for(mutex_, std::min(left, kLongestWait));
    }
    if (stopping_) return {};
    changed_.notify_all();
    return std::exchange(news_, {});
  }

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  uint64_t number_ GUARDED_BY(mutex_) = 0;
  News news_ GUARDED_BY(mutex_);
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_INBOX_H_
