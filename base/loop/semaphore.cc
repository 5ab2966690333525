#include "base/loop/semaphore.h"

#include "base/loop/event_loop.h"

namespace lockstep {

bool Semaphore::Enter(Waiter* waiter) {
  if (inside_.size() < limit_) {
    inside_.insert(waiter);
    return true;
  }
  places_[waiter] = queue_.insert(queue_.end(), waiter);
  return false;
}

void Semaphore::Leave(Waiter* waiter) {
  const auto place = places_.find(waiter);
  if (place != places_.end()) {
    queue_.erase(place->second);
    places_.erase(place);
    return;
  }
  if (inside_.erase(waiter) > 0) AdmitNext();
}

void Semaphore::AdmitNext() {
  if (queue_.empty()) return;
  Waiter* next = queue_.front();
  queue_.pop_front();
  places_.erase(next);
  inside_.insert(next);
  last_admitted_ = loop_->now();
  // Posted: waiters that fail at once would otherwise call each other recursively.
  loop_->Post(lifetime_.Guard([this, next] {
    if (inside_.contains(next)) next->OnAdmitted();
  }));
}

}  // namespace lockstep
