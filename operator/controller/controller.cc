#include "operator/controller/controller.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string_view>

#include "base/backoff.h"
#include "base/wall_time.h"
#include "core/text/limited_text.h"
#include "operator/controller/action_object.h"
#include "operator/controller/metrics/histograms.h"
#include "operator/controller/observe/observe_pod.h"
#include "operator/controller/observe/snapshot_builder.h"
#include "operator/kube/api.h"
#include "operator/kube/resource_version.h"
#include "operator/policy/decide.h"
#include "operator/policy/policies.h"
#include "operator/policy/status/status_policies.h"

namespace lockstep::control {
namespace {

using kube::Priority;
using kube::Watched;

constexpr Duration kKeyRetry = seconds(2);
// A quota or a name may be free again soon, or in an hour.
constexpr Duration kFirstRefusalPause = milliseconds(500);
constexpr Duration kLongestRefusalPause = seconds(60);
constexpr int kPlanVersion = 1;
// Failures in a row after which the log and the status report them.
constexpr int kTold = 2;

// The 2nd, 4th, 8th, ...: a trouble that stays does not fill the log.
bool IsWorthALine(int times) { return times >= kTold && (times & (times - 1)) == 0; }

// In events of nodes, which others read, nothing is in a job's own words.
std::string WhatWasSeen(std::string_view evidence) {
  if (evidence == kLostThere) return "lost a machine on this node";
  if (evidence == kStragglerThere) return "waited for its machine on this node";
  if (evidence == kSlowThere) return "measured this node as slow";
  return "had failures on this node";
}

std::string NameOf(const kube::ObjectName& job) { return job.name_space + "/" + job.name; }

kube::ObjectName JobOf(const std::string& name) {
  const size_t slash = name.find('/');
  return {name.substr(0, slash), name.substr(slash + 1)};
}

// An event that should not wait behind others: something ended.
bool IsUrgent(const kube::PodView* before, const kube::PodView* after) {
  if (after == nullptr) return true;
  return IsOver(*after) && (before == nullptr || !IsOver(*before));
}

}  // namespace

Controller::Controller(EventLoop* loop, kube::Client* client, kube::EventRecorder* events,
                       prometheus::Registry* metrics, ControllerOptions options)
    : loop_(loop),
      client_(client),
      events_(events),
      options_(std::move(options)),
      executor_(loop, client, events),
      refresher_(loop, client, &caches_, &budget_),
      link_(loop, {.max_polls = options_.max_polls}, this),
      jobs_(metrics),
      queue_wait_(AddHistogram(metrics, "lockstep_operator_queue_wait_seconds",
                               "Time from a job's turn to its decision", ShortTimes())),
      reconcile_(AddHistogram(metrics, "lockstep_operator_reconcile_seconds",
                              "Time from a job's snapshot to its decision", ShortTimes())),
      node_reports_(loop, client, options_.node_reports),
      queue_({.by_namespace = !options_.namespaces.empty()}),
      scopes_(options_.namespaces),
      claims_(options_.claimant),
      timer_(loop, [this] { ProcessQueue(); }),
      claims_timer_(loop, [this] { HeedClaims(); }) {
  caches_.sick = SickNodes(options_.signs);
}

// ---- what is seen ----

template <typename T>
void Controller::Deliver(uint64_t round, Watched resource, kube::Batch<T> batch,
                         void (Controller::*apply)(kube::Batch<T>)) {
  loop_->PostFromAnyThread(
      lifetime_.Guard([this, round, resource, apply, batch = std::move(batch)]() mutable {
        if (!scopes_.IsCurrent(batch.name_space, round)) return;
        const bool whole = batch.replace;
        if (whole) scopes_.OnRead(batch.name_space, resource);
        queue_.Progress(resource, batch.resource_version, BootTime(), batch.name_space);
        (this->*apply)(std::move(batch));
        if (whole) WakeHeld();
        ProcessQueue();
      }));
}

void Controller::OnBatch(uint64_t round, kube::Batch<kube::JobView> batch) {
  Deliver(round, Watched::kTrainingJobs, std::move(batch), &Controller::ApplyJobs);
}
void Controller::OnBatch(uint64_t round, kube::Batch<kube::PodView> batch) {
  Deliver(round, Watched::kPods, std::move(batch), &Controller::ApplyPods);
}
void Controller::OnBatch(uint64_t round, kube::Batch<kube::ServiceView> batch) {
  Deliver(round, Watched::kServices, std::move(batch), &Controller::ApplyServices);
}
void Controller::OnBatch(uint64_t round, kube::Batch<kube::SliceView> batch) {
  Deliver(round, Watched::kSlices, std::move(batch), &Controller::ApplySlices);
}
void Controller::OnBatch(uint64_t round, kube::Batch<kube::NodeView> batch) {
  Deliver(round, Watched::kNodes, std::move(batch), &Controller::ApplyNodes);
}

void Controller::OnBatch(uint64_t round, kube::Batch<kube::WorkloadView> batch) {
  Deliver(round, Watched::kWorkloads, std::move(batch), &Controller::ApplyWorkloads);
}
void Controller::OnBatch(uint64_t round, kube::Batch<kube::FlavorView> batch) {
  Deliver(round, Watched::kFlavors, std::move(batch), &Controller::ApplyFlavors);
}

void Controller::OnBatch(uint64_t round, kube::Batch<kube::ClaimView> batch) {
  Deliver(round, Watched::kClaims, std::move(batch), &Controller::ApplyClaims);
}

void Controller::OnNoQueues(const std::string& scope, uint64_t round, Watched which,
                            ErrorKind why) {
  loop_->PostFromAnyThread(lifetime_.Guard([this, scope, round, which, why] {
    if (!scopes_.IsCurrent(scope, round)) return;
    if (scopes_.OnNoQueues(scope, which, why)) WakeQueued();
  }));
}

void Controller::OnStatus(const std::string& job, const core::GangStatus& status, Time at) {
  const JobKey key = JobOf(job);
  JobRecord* record = jobs_.Find(key);
  if (record == nullptr) return;
  Update(status, at, record);
  Wake(key.name_space, key.name, Priority::kNormal);
}

void Controller::OnAccepted(const std::string& job) {
  const JobKey key = JobOf(job);
  Wake(key.name_space, key.name, Priority::kNormal);
}

void Controller::ApplyJobs(kube::Batch<kube::JobView> batch) {
  caches_.jobs.Apply(std::move(batch), [&](const kube::JobView* before,
                                           const kube::JobView* after) {
    const kube::ObjectMeta& meta = (after != nullptr ? after : before)->meta;
    if (after != nullptr && jobs_.Knows(meta)) return;
    // Orders that were begun are finished first.
    Wake(meta.name_space, meta.name, before == nullptr ? Priority::kBackground : Priority::kNormal);
  });
}

void Controller::ApplyPods(kube::Batch<kube::PodView> batch) {
  caches_.pods.Apply(std::move(batch),
                     [&](const kube::PodView* before, const kube::PodView* after) {
                       const kube::PodView& pod = after != nullptr ? *after : *before;
                       if (after == nullptr) jobs_.OnPodDeleted(pod);
                       Wake(pod.meta.name_space, pod.job,
                            IsUrgent(before, after) ? Priority::kUrgent : Priority::kNormal);
                     });
}

template <typename T>
void Controller::Apply(kube::Batch<T> batch, kube::Cache<T>* cache) {
  cache->Apply(std::move(batch), [&](const T* before, const T* after) {
    const T& object = after != nullptr ? *after : *before;
    if (after == nullptr) {
      jobs_.OnOwnedDeleted({object.meta.name_space, object.job}, object.meta.owner_uid);
    }
    Wake(object.meta.name_space, object.job, Priority::kNormal);
  });
}

void Controller::ApplyServices(kube::Batch<kube::ServiceView> batch) {
  Apply(std::move(batch), &caches_.services);
}

void Controller::ApplySlices(kube::Batch<kube::SliceView> batch) {
  Apply(std::move(batch), &caches_.slices);
}

void Controller::ApplyWorkloads(kube::Batch<kube::WorkloadView> batch) {
  const bool whole = batch.replace;
  Apply(std::move(batch), &caches_.workloads);
  if (whole) WakeQueued();
}

void Controller::ApplyFlavors(kube::Batch<kube::FlavorView> batch) {
  bool changed = batch.replace;
  caches_.flavors.Apply(std::move(batch),
                        [&](const kube::FlavorView*, const kube::FlavorView*) { changed = true; });
  if (changed) WakeQueued();
}

Queues Controller::queues(const std::string& name_space) const {
  return options_.watches_queues ? scopes_.QueuesOf(name_space) : Queues::kAbsent;
}

// Kueue's availability has changed.
void Controller::WakeQueued() {
  caches_.jobs.ForEach([this](const kube::JobView& job) {
    if (job.json.find(kQueueLabel) == std::string::npos) return;
    Wake(job.meta.name_space, job.meta.name, Priority::kNormal);
  });
}

// A node changes what is decided if it goes, is declared out of service, cannot be reached, or if
// it falls sick or recovers.
void Controller::ApplyNodes(kube::Batch<kube::NodeView> batch) {
  std::set<std::string> changed;
  caches_.nodes.Apply(std::move(batch),
                      [&](const kube::NodeView* before, const kube::NodeView* after) {
                        const bool gone = before != nullptr && after == nullptr;
                        const kube::NodeView was = before != nullptr ? *before : kube::NodeView{};
                        const kube::NodeView is = after != nullptr ? *after : kube::NodeView{};
                        const std::string& name = (after != nullptr ? after : before)->meta.name;
                        const bool sick = caches_.sick.OnNode(name, after, BootTime());
                        node_reports_.OnNode(BootTime(), name, after);
                        if (gone || sick || (is.out_of_service && !was.out_of_service) ||
                            (is.unreachable && !was.unreachable)) {
                          changed.insert(name);
                        }
                      });
  if (!changed.empty()) {
    caches_.pods.ForEach([&](const kube::PodView& pod) {
      if (changed.contains(pod.node)) Wake(pod.meta.name_space, pod.job, Priority::kUrgent);
    });
  }
}

void Controller::ApplyClaims(kube::Batch<kube::ClaimView> batch) {
  const Time now = BootTime();
  caches_.claims.Apply(std::move(batch),
                       [&](const kube::ClaimView* before, const kube::ClaimView* after) {
                         if (after != nullptr) return claims_.OnSeen(*after, now);
                         claims_.OnGone(before->meta.name_space);
                       });
  HeedClaims();
}

// Leaves the namespaces of other operators, and takes those that no longer have one.
void Controller::HeedClaims() {
  const Time now = BootTime();
  const std::map<std::string, std::string> before = std::exchange(others_, claims_.Others(now));
  for (const auto& [name_space, holder] : others_) {
    if (before.contains(name_space)) continue;
    spdlog::info("namespace {} belongs to {}, which holds Lease {}/{}", name_space, holder,
                 name_space, kClaimLease);
    ReleaseNamespace(name_space);
  }
  for (const auto& [name_space, holder] : before) {
    if (others_.contains(name_space)) continue;
    spdlog::info("namespace {} no longer belongs to {}: this operator works on its jobs",
                 name_space, holder);
    // Its jobs' caches may be of different age: each job is read first.
    caches_.jobs.ForEach([&](const kube::JobView& job) {
      if (job.meta.name_space != name_space) return;
      jobs_.FindOrAdd({name_space, job.meta.name}).uncertain = true;
    });
  }
  claims_timer_.WakeAt(claims_.NextEnd(now));
  WakeHeld();
}

void Controller::BeginRound(const std::string& scope, uint64_t round) {
  scopes_.Begin(scope, round);
}

void Controller::Open(const std::string& scope) {
  scopes_.SetOpen(scope, true);
  WakeHeld();
}

void Controller::Close(const std::string& scope) {
  scopes_.SetOpen(scope, false);
  ReleaseNamespace(scope);
}

bool Controller::MayDecide(const std::string& name_space) const {
  return scopes_.MayDecide(name_space) && !others_.contains(name_space);
}

void Controller::Hold(const JobKey& key, Priority priority) {
  const auto [held, added] = held_.try_emplace(key, priority);
  if (!added) held->second = std::max(held->second, priority);
}

// Those that may be decided now.
void Controller::WakeHeld() {
  for (auto each = held_.begin(); each != held_.end();) {
    const auto here = each++;
    if (!MayDecide(here->first.name_space)) continue;
    const auto held = held_.extract(here);
    Wake(held.key().name_space, held.key().name, held.mapped());
  }
}

// Whoever has these jobs now, of a namespace or ("") of all, speaks to their agents.
void Controller::ReleaseNamespace(const std::string& name_space) {
  caches_.jobs.ForEach([&](const kube::JobView& job) {
    if (!name_space.empty() && job.meta.name_space != name_space) return;
    const JobKey key = {job.meta.name_space, job.meta.name};
    Forget(key);
    Hold(key, Priority::kBackground);
  });
}

void Controller::Wake(std::string_view name_space, std::string_view job, Priority priority) {
  if (job.empty()) return;
  const JobKey key = {std::string(name_space), std::string(job)};
  if (!MayDecide(key.name_space)) return Hold(key, priority);
  queue_.Add(key, priority, BootTime());
  if (pump_posted_) return;
  pump_posted_ = true;
  loop_->Post(lifetime_.Guard([this] {
    pump_posted_ = false;
    ProcessQueue();
  }));
}

// ---- working ----

void Controller::Lead() {
  leading_ = true;
  node_reports_.Lead(BootTime());
  LoadKeys();
}

void Controller::LoadKeys() {
  const auto take = [this](kube::ApiResult<MasterKeys> keys) {
    if (stopped_) return;
    if (keys.ok()) {
      keys_ = std::move(*keys);
      return ProcessQueue();
    }
    spdlog::error("no master key: {}: {}", kube::ToString(keys.error().kind), keys.error().message);
    loop_->StartTimer(BootTime() + kKeyRetry, lifetime_.Guard([this] { LoadKeys(); }));
  };
  LoadMasterKeys(client_, options_.system_namespace, lifetime_.Hop(loop_, take));
}

void Controller::ProcessQueue() {
  if (!leading_ || stopped_ || !keys_) return;
  timer_.Cancel();
  const Time now = BootTime();
  const auto may = [this](const std::string& name_space, Priority priority) {
    return orders_.MayBegin(name_space, priority);
  };
  // A job that may not begin yet begins when another order is done.
  while (const std::optional<kube::Work> work = queue_.Take(now, may)) Work(*work);
  timer_.WakeAt(queue_.NextWake());
}

void Controller::Forget(const JobKey& key) {
  link_.Forget(NameOf(key));
  jobs_.Forget(key);
}

void Controller::Work(const kube::Work& work) {
  const JobKey& key = work.key;
  if (!MayDecide(key.name_space)) {
    Hold(key, Priority::kNormal);
    queue_.Done(key, BootTime(), kube::Outcome::kOk);
    return;
  }
  if (work.stale) return Refresh(key, /*all=*/true);
  const kube::JobView* view = caches_.jobs.Find(key);
  if (view == nullptr) {
    Forget(key);
    queue_.Done(key, BootTime(), kube::Outcome::kOk);
    return;
  }
  JobRecord& record = jobs_.FindOrAdd(key);
  if (record.uncertain || record.job_changed) return Refresh(key, record.uncertain);
  if (!record.uid.empty() && record.uid != view->meta.uid) link_.Forget(NameOf(key));
  if (Status learned = Update(*view, &record); !learned.ok()) {
    spdlog::error("{}: its status cannot be read, no decision is made: {}", NameOf(key),
                  learned.error().message);
    queue_.Done(key, BootTime(), kube::Outcome::kRetry);
    return;
  }
  if (!GiveKey(*keys_, &record)) {
    spdlog::error("{}: Secret {} does not hold version {}", NameOf(key), kMasterKeySecret,
                  record.status.agent.key_version);
    queue_.Done(key, BootTime(), kube::Outcome::kRetry);
    return;
  }
  jobs_.OnLearned(&record);
  const Time began = BootTime();
  const Snapshot snapshot = TakeSnapshot(record);
  if (gang::GangPeers peers = PeersOf(record, snapshot); peers.members.empty()) {
    link_.Forget(NameOf(key));
  } else {
    link_.Set(NameOf(key), std::move(peers));
  }
  Decision decision = Decide(snapshot, {WallNow(), began});
  queue_wait_->Observe(Seconds(work.waited));
  reconcile_->Observe(Seconds(BootTime() - began));
  CarryOut(key, &record, std::move(decision));
}

Snapshot Controller::TakeSnapshot(const JobRecord& record) {
  const std::string name = NameOf(record.name());
  Snapshot snapshot = SnapshotOf(record, caches_, options_.namespaces.empty());
  AddQueue(record, caches_, queues(record.name().name_space), &snapshot);
  snapshot.agent = {options_.agent_image, kPlanVersion, keys_->newest()};
  if (snapshot.notes.refusal) snapshot.installer = InstallerAmounts(options_.delivery);
  snapshot.desired_state_accepted = record.desired && link_.Accepted(name, *record.desired);
  snapshot.gang_error = link_.LastError(name);
  snapshot.gang_unreadable = link_.IsUnreadable(name);
  snapshot.replacements_allowed =
      replacements_.Allowed(record.name().name_space, caches_.pods.size(), BootTime());
  snapshot.may_tell_progress = turns_.MayTell(record.progress_turn, BootTime());
  snapshot.oldest_waiting = jobs_.IsOldestWaiting(record);
  return snapshot;
}

void Controller::CarryOut(const JobKey& key, JobRecord* record, Decision decision) {
  record->memory = std::move(decision.memory);
  if (decision.nothing_missing) record->TakeBackRefusal();
  // The end of an earlier attempt has been decided, and memory has its facts.
  const auto is_past = [&](const MachineAttempt& each) {
    return each.second != record->status.attempts.Of(static_cast<int>(each.first));
  };
  std::erase_if(record->notes.vanished, [&](const auto& each) { return is_past(each.first); });
  std::erase_if(record->notes.made, is_past);
  record->desired = decision.desired;
  if (decision.desired) link_.SetDesiredState(NameOf(key), decision.desired);
  if (decision.wake != kNever) queue_.AddAt(key, decision.wake, Priority::kNormal);
  if (decision.progress_waits) {
    turns_.Wait(&record->progress_turn, BootTime());
    queue_.AddAt(key, *record->progress_turn, Priority::kNormal);
  } else {
    const bool told = decision.status && decision.status->progress != record->status.progress;
    turns_.Pass(told, &record->progress_turn, BootTime());
  }
  if (!decision.intent && !decision.status && decision.actions.empty()) {
    if (caches_.pods.ByJob(key).empty()) Rest(record);
    queue_.Done(key, BootTime(), kube::Outcome::kOk);
    return;
  }
  replacements_.OnReplaced(key.name_space, decision.replacements, BootTime());
  Order order;
  order.job = key;
  order.uid = record->uid;
  order.resource_version = record->resource_version;
  order.decision = std::move(decision);
  // The record outlives the order, or is no longer needed: both belong to this thread.
  order.body_of = [this, key](const Action& action) -> Result<std::string> {
    const JobRecord* found = jobs_.Find(key);
    if (found == nullptr) return Error::NotFound("the job is gone");
    AgentDelivery delivery = options_.delivery;
    delivery.newest_image = options_.agent_image;
    return ObjectOf(action, *found, caches_, std::move(delivery));
  };
  std::optional<core::JobStatus> written =
      order.decision.intent ? order.decision.intent : order.decision.status;
  orders_.Begin(key.name_space);
  executor_.Carry(std::move(order),
                  [this, key, uid = record->uid, written = std::move(written)](
                      const WriteResult& result) { OnWritten(key, uid, written, result); });
}

void Controller::OnWritten(const JobKey& key, const std::string& uid,
                           const std::optional<core::JobStatus>& written,
                           const WriteResult& result) {
  orders_.End(key.name_space);
  const Time now = BootTime();
  for (const WriteResult::Written& each : result.written) {
    queue_.Park(key, each.resource, each.version, now);
  }
  JobRecord* record = jobs_.Find(key);
  if (record != nullptr && record->uid == uid) {
    Notes& notes = record->notes;
    notes.key_made |= result.key_made;
    if (result.grouped_in) notes.grouped_in = *result.grouped_in;
    if (!result.ungrouped.empty()) notes.ungrouped = result.ungrouped;
    if (result.heed) notes.heed = *result.heed;
    notes.made.insert(result.pods_made.begin(), result.pods_made.end());
    record->uncertain |= result.uncertain;
    record->job_changed |= result.job_changed;
    OnTrouble(key, result, record);
    if (result.refusal) {
      notes.refusal = result.refusal;
      notes.make_again =
          now + DoubledPause(kFirstRefusalPause, kLongestRefusalPause, record->refusals++);
    } else if (result.complete && result.made_something) {
      record->TakeBackRefusal();
    }
    if (result.spare_refusal || result.spare_made) notes.spare_refusal = result.spare_refusal;
    if (result.refusal || result.key_made || result.grouped_in || !result.ungrouped.empty() ||
        result.heed) {
      Wake(key.name_space, key.name, Priority::kNormal);
    }
    if (result.status_written && written) {
      // The record holds it; a cache that is behind is seen to be, where versions can be compared.
      if (!kube::IsResourceVersion(result.job_version)) {
        queue_.Park(key, Watched::kTrainingJobs, result.job_version, now);
      }
      Wake(key.name_space, key.name, Priority::kNormal);
      ReportNodes(key, record->status, *written);
      jobs_.OnWritten(record, *written, result.job_version, WallNow());
    }
  }
  queue_.Done(key, now, result.complete ? kube::Outcome::kOk : kube::Outcome::kRetry);
  if (stopped_) return;
  ProcessQueue();
}

// An event at each node of which the gang has seen something.
void Controller::ReportNodes(const JobKey& key, const core::JobStatus& before,
                             const core::JobStatus& after) {
  if (!options_.namespaces.empty()) return;  // that needs rights outside of them
  for (const core::SuspectNode& each : NewEvidence(before, after)) {
    const kube::NodeView* node = caches_.nodes.Find({"", each.node});
    if (node == nullptr) continue;
    const kube::ObjectRef regarding{"v1", "Node", "", each.node, node->meta.uid};
    const std::string reason = "Lockstep" + each.evidence;
    const std::string message = "TrainingJob " + key.name_space + "/" + key.name + " " +
                                WhatWasSeen(each.evidence) + "; see its status.suspectNodes";
    events_->Record(regarding, kube::EventType::kWarning, reason, reason, message);
    node_reports_.Note(BootTime(), each.node, each.evidence, message);
  }
}

// No trouble stays untold: the log names it when it comes again, and the job's reason when it is a
// write that another write cannot have caused.
void Controller::OnTrouble(const JobKey& key, const WriteResult& result, JobRecord* record) {
  if (!result.trouble) {
    record->failed_writes = 0;
    return;
  }
  const WriteTrouble& trouble = *result.trouble;
  ++record->failed_writes;
  if (IsWorthALine(record->failed_writes)) {
    spdlog::warn("{}: writing {} failed {} times in a row: {}", NameOf(key),
                 trouble.object.empty() ? "its changes" : trouble.object, record->failed_writes,
                 trouble.message);
  }
  if (record->failed_writes < kTold || trouble.passing || trouble.object.empty()) return;
  record->notes.refusal = Refusal{Refusal::Kind::kNotAnswered, trouble.object, trouble.message};
}

// Reads anew what is in doubt: all that is the job's, or the TrainingJob alone.
void Controller::Refresh(const JobKey& key, bool all) {
  const bool queued = queues(key.name_space) == Queues::kThere;
  const auto reach = !all     ? Refresher::Reach::kJob
                     : queued ? Refresher::Reach::kAllAndQueue
                              : Refresher::Reach::kAll;
  if (JobRecord* record = jobs_.Find(key); record != nullptr) {
    record->uncertain = record->job_changed = false;
  }
  refresher_.Read(key, reach, [this, key, all](const Status& read) {
    JobRecord* record = jobs_.Find(key);
    // Whatever was read counts, also from a server that went back to an older state.
    if (record != nullptr && read.ok()) {
      record->resource_version.clear();
      record->failed_reads = 0;
    }
    if (!read.ok()) {
      if (record != nullptr) (all ? record->uncertain : record->job_changed) = true;
      return OnUnread(key, read.error());
    }
    queue_.Done(key, BootTime(), kube::Outcome::kOk);
    Wake(key.name_space, key.name, Priority::kNormal);
    ProcessQueue();
  });
}

// Nothing is decided until it can be read: the log and the status say so when it failed twice.
void Controller::OnUnread(const JobKey& key, const Error& why) {
  JobRecord* record = jobs_.Find(key);
  const kube::JobView* view = caches_.jobs.Find(key);
  const int failed = record == nullptr ? 0 : ++record->failed_reads;
  if (IsWorthALine(failed)) {
    spdlog::warn("{}: its objects could not be read {} times in a row, no decision is made: {}",
                 NameOf(key), failed, why.message);
  }
  const auto end = [this, key] {
    queue_.Done(key, BootTime(), kube::Outcome::kRetry);
    if (!stopped_) ProcessQueue();
  };
  if (failed < kTold || view == nullptr || record->uid != view->meta.uid ||
      !Update(*view, record).ok() || IsFinished(record->status)) {
    return end();
  }
  core::JobStatus told = record->status;
  told.reason = core::FirstBytes(
      "the operator cannot read the job's objects, so it decides nothing: " + why.message,
      core::kMaxStatusString);
  if (told.reason == record->status.reason) return end();
  Order order;
  order.job = key;
  order.uid = record->uid;
  order.resource_version = record->resource_version;
  order.decision.status = told;
  orders_.Begin(key.name_space);
  executor_.Carry(std::move(order),
                  [this, key, uid = record->uid, told, end](const WriteResult& result) {
                    orders_.End(key.name_space);
                    JobRecord* now = jobs_.Find(key);
                    if (now != nullptr && now->uid == uid && result.status_written) {
                      jobs_.OnWritten(now, told, result.job_version, WallNow());
                    }
                    end();
                  });
}

}  // namespace lockstep::control
