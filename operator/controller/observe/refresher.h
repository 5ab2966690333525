// Refresher: reads one job's objects from the API server into the caches, for when a write has not
// come back for long, or may have been done without an answer: the watch may be behind. What the
// watch brings later is newer or the same.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_REFRESHER_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_REFRESHER_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/result.h"
#include "operator/controller/jobs/job_budget.h"
#include "operator/controller/observe/caches.h"
#include "operator/kube/client.h"
#include "operator/kube/views.h"
#include "operator/kube/watch/paged_list.h"

namespace lockstep::control {

class Refresher {
 public:
  enum class Reach : uint8_t {
    kJob,          // the TrainingJob alone
    kAll,          // its pods, Services and slices, too
    kAllAndQueue,  // and its Workloads: Kueue is there, and the job may be queued
  };

  // All must outlive it.
  Refresher(EventLoop* loop, kube::Client* client, Caches* caches, JobBudget* budget);

  // Calls `done` once, from the loop, never from within: the first thing that could not be read, if
  // there was one.
  void Read(const kube::ObjectName& job, Reach reach, std::function<void(const Status&)> done);

 private:
  struct Reads;

  template <typename T>
  void ReadPages(const std::shared_ptr<kube::PagedList<T>>& list, const kube::ObjectName& job,
                 kube::Cache<T>* cache, const std::shared_ptr<Reads>& reads);

  EventLoop* loop_;
  kube::Client* client_;
  Caches* caches_;
  JobBudget* budget_;
  Lifetime lifetime_;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_REFRESHER_H_
