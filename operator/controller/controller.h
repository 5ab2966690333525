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
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/loop/wake_timer.h"
#include "operator/controller/claims.h"
#include "operator/controller/executor.h"
#include "operator/controller/jobs/job_budget.h"
#include "operator/controller/jobs/master_key.h"
#include "operator/controller/jobs/orders_under_way.h"
#include "operator/controller/jobs/progress_turns.h"
#include "operator/controller/jobs/rate_limiter.h"
#include "operator/controller/node_reports.h"
#include "operator/controller/observe/caches.h"
#include "operator/controller/observe/job_store.h"
#include "operator/controller/observe/refresher.h"
#include "operator/controller/scopes.h"
#include "operator/gang/gang_link.h"
#include "operator/kube/client.h"
#include "operator/kube/events.h"
#include "operator/kube/views.h"
#include "operator/kube/watch/watch.h"
#include "operator/kube/work_queue.h"
#include "operator/objects/pod_object.h"
#include "operator/policy/facts/decision.h"

namespace lockstep::control {

struct ControllerOptions {
  std::string agent_image;
  AgentDelivery delivery;
  std::string system_namespace;
  std::vector<std::string> namespaces = {};  // none: all, and nodes, for which no Role is enough
  std::string claimant;                      // what this operator is called in claims
  bool watches_queues = true;                // else there are none
  SicknessSigns signs;                       // by which nodes count as sick
  NodeReportOptions node_reports = {};
  size_t max_polls = 256;  // connections to gangs at a time
};

class Controller final : private gang::GangLink::Owner {
 public:
  // All pointers must outlive it.
  Controller(EventLoop* loop, kube::Client* client, kube::EventRecorder* events,
             prometheus::Registry* metrics, ControllerOptions options);

  // Batches of an earlier round than the last begun for their scope are dropped.
  void OnBatch(uint64_t round, kube::Batch<kube::JobView> batch);
  void OnBatch(uint64_t round, kube::Batch<kube::PodView> batch);
  void OnBatch(uint64_t round, kube::Batch<kube::ServiceView> batch);
  void OnBatch(uint64_t round, kube::Batch<kube::SliceView> batch);
  void OnBatch(uint64_t round, kube::Batch<kube::NodeView> batch);
  void OnBatch(uint64_t round, kube::Batch<kube::WorkloadView> batch);
  void OnBatch(uint64_t round, kube::Batch<kube::FlavorView> batch);
  void OnBatch(uint64_t round, kube::Batch<kube::ClaimView> batch);
  // One of Kueue's types cannot be read: it is not installed, or this operator may not. A batch
  // that replaces shows that it can.
  void OnNoQueues(const std::string& scope, uint64_t round, kube::Watched which, ErrorKind why);

  // All resources of a scope, one of the given namespaces or "" (scopes.h), are read anew,
  // consistently; nothing is decided there before they are whole.
  void BeginRound(const std::string& scope, uint64_t round);

  // This operator may write now. Loads the master key, then works in the scopes that are its own.
  void Lead();
  // The jobs of a scope are its own. A round must have been begun there since: caches of different
  // age, in which a new pod is missing, would show a lost machine.
  void Open(const std::string& scope);
  // They are no more: nothing is begun there.
  void Close(const std::string& scope);

  // By which the jobs that OnBatch is given have been admitted.
  JobBudget& budget() { return budget_; }

  // Scopes of which a resource was not read yet, but for Kueue's, which may not be there.
  std::vector<std::string> Unread() const { return scopes_.Unread(); }
  // Begins no further decision.
  void Stop() { stopped_ = true; }

 private:
  using JobKey = kube::ObjectName;

  void OnStatus(const std::string& job, const core::GangStatus& status, Time at) override;
  void OnAccepted(const std::string& job) override;
  template <typename T>
  void Deliver(uint64_t round, kube::Watched resource, kube::Batch<T> batch,
               void (Controller::*apply)(kube::Batch<T>));
  void ApplyJobs(kube::Batch<kube::JobView> batch);
  void ApplyPods(kube::Batch<kube::PodView> batch);
  // For a change that names only its job and has normal urgency.
  template <typename T>
  void Apply(kube::Batch<T> batch, kube::Cache<T>* cache);
  void ApplyServices(kube::Batch<kube::ServiceView> batch);
  void ApplySlices(kube::Batch<kube::SliceView> batch);
  void ApplyNodes(kube::Batch<kube::NodeView> batch);
  void ApplyWorkloads(kube::Batch<kube::WorkloadView> batch);
  void ApplyFlavors(kube::Batch<kube::FlavorView> batch);
  void ApplyClaims(kube::Batch<kube::ClaimView> batch);
  void HeedClaims();
  Queues queues(const std::string& name_space) const;
  void WakeQueued();
  void Wake(std::string_view name_space, std::string_view job, kube::Priority priority);
  bool MayDecide(const std::string& name_space) const;
  void Hold(const JobKey& key, kube::Priority priority);
  void WakeHeld();
  void ReleaseNamespace(const std::string& name_space);

  void LoadKeys();
  void ProcessQueue();
  void Work(const kube::Work& work);
  void Forget(const JobKey& key);
  void Refresh(const JobKey& key, bool all);
  void OnUnread(const JobKey& key, const Error& why);
  static void OnTrouble(const JobKey& key, const WriteResult& result, JobRecord* record);
  Snapshot TakeSnapshot(const JobRecord& record);
  void ReportNodes(const JobKey& key, const core::JobStatus& before, const core::JobStatus& after);
  void CarryOut(const JobKey& key, JobRecord* record, Decision decision);
  void OnWritten(const JobKey& key, const std::string& uid,
                 const std::optional<core::JobStatus>& written, const WriteResult& result);

  EventLoop* loop_;
  kube::Client* client_;
  kube::EventRecorder* events_;
  ControllerOptions options_;
  Caches caches_;
  JobBudget budget_;
  Executor executor_;
  Refresher refresher_;
  gang::GangLink link_;
  JobStore jobs_;
  prometheus::Histogram* queue_wait_;
  prometheus::Histogram* reconcile_;
  RateLimiter replacements_;
  NodeReports node_reports_;
  ProgressTurns turns_;

  kube::WorkQueue queue_;
  Scopes scopes_;
  Claims claims_;
  std::map<std::string, std::string> others_;  // namespaces that are others', and whose
  // Jobs that are to be looked at once that may be decided which is in their namespace.
  std::map<JobKey, kube::Priority> held_;
  std::optional<MasterKeys> keys_;
  OrdersUnderWay orders_;
  bool leading_ = false;
  bool stopped_ = false;
  bool pump_posted_ = false;
  WakeTimer timer_;
  WakeTimer claims_timer_;
  Lifetime lifetime_;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_CONTROLLER_H_
