// Refresher: reads one job's objects from the API server into the caches, for when a write has not
// come back for long, or may have been done without an answer: the watch may be behind. What the
// watch brings later is newer or the same.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_REFRESHER_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_REFRESHER_H_

#include <functional>

#include "base/event_loop.h"
#include "base/lifetime.h"
#include "operator/controller/caches.h"
#include "operator/kube/client.h"
#include "operator/kube/views.h"

namespace lockstep::control {

class Refresher {
 public:
  // All must outlive it.
  Refresher(EventLoop* loop, kube::Client* client, Caches* caches);

  // Calls `done` once, from the loop, never from within: whether all of it could be read.
  // `queues`: Kueue is there, and the job may be queued.
  void Read(const kube::ObjectName& job, bool queues, std::function<void(bool ok)> done);

 private:
  EventLoop* loop_;
  kube::Client* client_;
  Caches* caches_;
  Lifetime lifetime_;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_REFRESHER_H_
