// Controller: the loop of the operator. Watch batches come in, keys of jobs go through the work
// queue, each is decided from one snapshot, and the executor carries the decision out.
//
// Everything here belongs to the event loop's thread; OnBatch may be called from any. Until Lead()
// it only keeps its caches warm.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_CONTROLLER_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_CONTROLLER_H_

#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/event_loop.h"
#include "base/lifetime.h"
#include "base/wake_timer.h"
#include "operator/controller/caches.h"
#include "operator/controller/executor.h"
#include "operator/controller/job_store.h"
#include "operator/controller/master_key.h"
#include "operator/controller/queue_reads.h"
#include "operator/controller/rate_limiter.h"
#include "operator/controller/refresher.h"
#include "operator/gang/gang_link.h"
#include "operator/kube/client.h"
#include "operator/kube/events.h"
#include "operator/kube/views.h"
#include "operator/kube/watch/watch.h"
#include "operator/kube/work_queue.h"
#include "operator/objects/pod_object.h"
#include "operator/policy/decision.h"

namespace lockstep::control {

struct ControllerOptions {
  std::string agent_image;
  AgentDelivery delivery;
  std::string system_namespace;
  bool watches_nodes = true;   // not with a Role only
  bool watches_queues = true;  // else there are none
};

class Controller {
 public:
  // All pointers must outlive it.
  Controller(EventLoop* loop, kube::Client* client, kube::EventRecorder* events,
             prometheus::Registry* metrics, ControllerOptions options);

  // Batches of an earlier round than the last begun are dropped.
  void OnBatch(uint64_t round, kube::Batch<kube::JobView> batch);
  void OnBatch(uint64_t round, kube::Batch<kube::PodView> batch);
  void OnBatch(uint64_t round, kube::Batch<kube::ServiceView> batch);
  void OnBatch(uint64_t round, kube::Batch<kube::SliceView> batch);
  void OnBatch(uint64_t round, kube::Batch<kube::NodeView> batch);
  void OnBatch(uint64_t round, kube::Batch<kube::WorkloadView> batch);
  void OnBatch(uint64_t round, kube::Batch<kube::FlavorView> batch);
  // One of Kueue's types cannot be read: it is not installed, or this operator may not. A batch
  // that replaces shows that it can.
  void OnNoQueues(uint64_t round, kube::Watched which, ErrorKind why);

  // All resources are read anew, consistently; nothing is decided before they are whole.
  void BeginRound(uint64_t round);

  // This operator may write now. Loads the master key, then works. A round must have been begun
  // since: caches of different age, in which a new pod is missing, would show a lost machine.
  void Lead();

  // Every resource was read as a whole in this round, but for Kueue's, which may not be there.
  bool synced() const;
  // No decision is begun any more.
  void Stop() { stopped_ = true; }

 private:
  using JobKey = kube::ObjectName;

  template <typename T>
  void Hand(uint64_t round, kube::Watched resource, kube::Batch<T> batch,
            void (Controller::*apply)(kube::Batch<T>));
  void ApplyJobs(kube::Batch<kube::JobView> batch);
  void ApplyPods(kube::Batch<kube::PodView> batch);
  // Of what is known by its job alone, and no more urgent than others.
  template <typename T>
  void Apply(kube::Batch<T> batch, kube::Cache<T>* cache, kube::Watched resource);
  void ApplyServices(kube::Batch<kube::ServiceView> batch);
  void ApplySlices(kube::Batch<kube::SliceView> batch);
  void ApplyNodes(kube::Batch<kube::NodeView> batch);
  void ApplyWorkloads(kube::Batch<kube::WorkloadView> batch);
  void ApplyFlavors(kube::Batch<kube::FlavorView> batch);
  Queues queues() const;
  void WakeQueued();
  void Wake(std::string_view name_space, std::string_view job, kube::Priority priority);

  void LoadKeys();
  void Pump();
  void Work(const kube::Work& work);
  void Forget(const JobKey& key);
  void Refresh(const JobKey& key);
  Snapshot Take(const JobRecord& record);
  void CarryOut(const JobKey& key, JobRecord* record, Decision decision);
  void OnWritten(const JobKey& key, const std::string& uid,
                 const std::optional<core::JobStatus>& written, const WriteResult& result);

  EventLoop* loop_;
  kube::Client* client_;
  ControllerOptions options_;
  Caches caches_;
  Executor executor_;
  Refresher refresher_;
  gang::GangLink link_;
  JobStore jobs_;
  prometheus::Histogram* queue_wait_;
  prometheus::Histogram* reconcile_;
  RateLimiter replacements_;

  kube::WorkQueue queue_;
  uint64_t round_ = 0;
  std::set<kube::Watched> whole_;  // resources that were read in this round
  QueueReads queue_reads_;         // likewise
  std::optional<MasterKeys> keys_;
  int orders_ = 0;  // that are carried out now
  bool leading_ = false;
  bool stopped_ = false;
  bool pump_posted_ = false;
  WakeTimer timer_;
  Lifetime lifetime_;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_CONTROLLER_H_
