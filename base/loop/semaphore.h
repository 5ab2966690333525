// Semaphore: limits how many do something costly at once. The rest wait in order of arrival; one
// that waits costs an entry in a list.
//
//   if (semaphore.Enter(this)) Begin();      // else OnAdmitted() calls Begin()
//   ...
//   semaphore.Leave(this);
//
// One thread. A waiter that goes away calls Leave, admitted or not; calling it twice does no harm.
#ifndef LOCKSTEP_BASE_LOOP_SEMAPHORE_H_
#define LOCKSTEP_BASE_LOOP_SEMAPHORE_H_

#include <cstddef>
#include <list>
#include <unordered_map>
#include <unordered_set>

#include "base/loop/lifetime.h"
#include "base/time.h"

namespace lockstep {

class EventLoop;

class Semaphore {
 public:
  class Waiter {
   public:
    virtual ~Waiter() = default;
    // Called from the loop once there is room, if Enter had said to wait.
    virtual void OnAdmitted() = 0;
  };

  Semaphore(EventLoop* loop, size_t limit) : loop_(loop), limit_(limit) {}
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  // True: go on at once. False: wait for OnAdmitted.
  bool Enter(Waiter* waiter);
  void Leave(Waiter* waiter);

  size_t inside() const { return inside_.size(); }
  size_t waiting() const { return queue_.size(); }
  // When room was last made for one that waited.
  Time last_admitted() const { return last_admitted_; }

 private:
  void AdmitNext();

  EventLoop* loop_;
  size_t limit_;
  std::unordered_set<Waiter*> inside_;
  std::list<Waiter*> queue_;
  std::unordered_map<Waiter*, std::list<Waiter*>::iterator> places_;
  Time last_admitted_ = Time::min();
  Lifetime lifetime_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_LOOP_SEMAPHORE_H_
