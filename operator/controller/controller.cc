#include "operator/controller/controller.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/backoff.h"
#include "base/wall_time.h"
#include "core/model/names.h"
#include "operator/controller/action_object.h"
#include "operator/controller/histograms.h"
#include "operator/controller/observe_pod.h"
#include "operator/kube/api.h"
#include "operator/kube/resource_version.h"
#include "operator/objects/key_secret.h"
#include "operator/policy/decide.h"
#include "operator/policy/machines.h"
#include "operator/policy/policies.h"

namespace lockstep::control {
namespace {

using kube::Priority;
using kube::Watched;

constexpr Duration kKeyRetry = seconds(2);
// A quota or a name may be free again soon, or in an hour.
constexpr Duration kFirstRefusalPause = milliseconds(500);
constexpr Duration kLongestRefusalPause = seconds(60);
constexpr int kPlanVersion = 1;
// Jobs with writes under way, each with one at least: as many as keep the client busy. The others
// wait here, where what happens to them meanwhile is one decision, and where the urgent go first.
constexpr int kOrdersAtOnce = 16;

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
      options_(std::move(options)),
      executor_(loop, client, events),
      refresher_(loop, client, &caches_),
      link_(loop, {},
            {.on_status =
                 [this](const std::string& job, const core::GangStatus& status, Time at) {
                   const auto record = records_.find(JobOf(job));
                   if (record == records_.end()) return;
                   Learn(status, at, &record->second);
                   Wake(record->first.name_space, record->first.name, Priority::kNormal);
                 },
             .on_accepted =
                 [this](const std::string& job) {
                   const JobKey key = JobOf(job);
                   Wake(key.name_space, key.name, Priority::kNormal);
                 }}),
      figures_(metrics),
      queue_wait_(AddHistogram(metrics, "lockstep_operator_queue_wait_seconds",
                               "From a job's turn to its decision", ShortTimes())),
      reconcile_(AddHistogram(metrics, "lockstep_operator_reconcile_seconds",
                              "From taking a job's snapshot to having its decision", ShortTimes())),
      timer_(loop, [this] { Pump(); }) {}

// ---- what is seen ----

template <typename T>
void Controller::Hand(uint64_t round, Watched resource, kube::Batch<T> batch,
                      void (Controller::*apply)(kube::Batch<T>)) {
  loop_->PostFromAnyThread(
      lifetime_.Guard([this, round, resource, apply, batch = std::move(batch)]() mutable {
        if (round != round_) return;
        if (batch.replace) whole_.insert(resource);
        (this->*apply)(std::move(batch));
      }));
}

void Controller::OnBatch(uint64_t round, kube::Batch<kube::JobView> batch) {
  Hand(round, Watched::kTrainingJobs, std::move(batch), &Controller::ApplyJobs);
}
void Controller::OnBatch(uint64_t round, kube::Batch<kube::PodView> batch) {
  Hand(round, Watched::kPods, std::move(batch), &Controller::ApplyPods);
}
void Controller::OnBatch(uint64_t round, kube::Batch<kube::ServiceView> batch) {
  Hand(round, Watched::kServices, std::move(batch), &Controller::ApplyServices);
}
void Controller::OnBatch(uint64_t round, kube::Batch<kube::NodeView> batch) {
  Hand(round, Watched::kNodes, std::move(batch), &Controller::ApplyNodes);
}

void Controller::ApplyJobs(kube::Batch<kube::JobView> batch) {
  caches_.jobs.Apply(std::move(batch), [&](const kube::JobView* before,
                                           const kube::JobView* after) {
    const kube::ObjectMeta& meta = (after != nullptr ? after : before)->meta;
    if (after != nullptr && Knows(meta)) return;
    // What was begun is finished first.
    Wake(meta.name_space, meta.name, before == nullptr ? Priority::kBackground : Priority::kNormal);
  });
  queue_.Progress(Watched::kTrainingJobs, caches_.jobs.resource_version(), BootTime());
  Pump();
}

void Controller::ApplyPods(kube::Batch<kube::PodView> batch) {
  caches_.pods.Apply(std::move(batch),
                     [&](const kube::PodView* before, const kube::PodView* after) {
                       const kube::PodView& pod = after != nullptr ? *after : *before;
                       if (after == nullptr) OnPodDeleted(pod);
                       Wake(pod.meta.name_space, pod.job,
                            IsUrgent(before, after) ? Priority::kUrgent : Priority::kNormal);
                     });
  queue_.Progress(Watched::kPods, caches_.pods.resource_version(), BootTime());
  Pump();
}

// It tells of nothing but what this operator itself wrote, or of what came before that.
bool Controller::Knows(const kube::ObjectMeta& job) const {
  const auto record = records_.find({job.name_space, job.name});
  return record != records_.end() && record->second.uid == job.uid &&
         kube::Covers(record->second.resource_version, job.resource_version);
}

// How it ended counts, though it is gone before anything was decided.
void Controller::OnPodDeleted(const kube::PodView& pod) {
  const auto record = records_.find({pod.meta.name_space, pod.job});
  if (record == records_.end() || record->second.uid != pod.meta.owner_uid || pod.machine < 0) {
    return;
  }
  const MachineAttempt attempt_of_machine{static_cast<uint32_t>(pod.machine), pod.attempt};
  record->second.notes.vanished.insert_or_assign(attempt_of_machine, ObservationOf(pod));
}

void Controller::ApplyServices(kube::Batch<kube::ServiceView> batch) {
  caches_.services.Apply(std::move(batch),
                         [&](const kube::ServiceView* before, const kube::ServiceView* after) {
                           const kube::ServiceView& service = after != nullptr ? *after : *before;
                           Wake(service.meta.name_space, service.job, Priority::kNormal);
                         });
  queue_.Progress(Watched::kServices, caches_.services.resource_version(), BootTime());
  Pump();
}

// Only a node that goes, is declared out of service or cannot be reached changes what is decided.
void Controller::ApplyNodes(kube::Batch<kube::NodeView> batch) {
  std::set<std::string> changed;
  caches_.nodes.Apply(std::move(batch),
                      [&](const kube::NodeView* before, const kube::NodeView* after) {
                        const bool gone = before != nullptr && after == nullptr;
                        const kube::NodeView was = before != nullptr ? *before : kube::NodeView{};
                        const kube::NodeView is = after != nullptr ? *after : kube::NodeView{};
                        if (gone || (is.out_of_service && !was.out_of_service) ||
                            (is.unreachable && !was.unreachable)) {
                          changed.insert((after != nullptr ? after : before)->meta.name);
                        }
                      });
  queue_.Progress(Watched::kNodes, caches_.nodes.resource_version(), BootTime());
  if (!changed.empty()) {
    caches_.pods.ForEach([&](const kube::PodView& pod) {
      if (changed.contains(pod.node)) Wake(pod.meta.name_space, pod.job, Priority::kUrgent);
    });
  }
  Pump();
}

void Controller::BeginRound(uint64_t round) {
  round_ = round;
  whole_.clear();
}

bool Controller::synced() const {
  return whole_.size() == (options_.watches_nodes ? size_t{4} : size_t{3});
}

void Controller::Wake(std::string_view name_space, std::string_view job, Priority priority) {
  if (job.empty()) return;
  queue_.Add({std::string(name_space), std::string(job)}, priority, BootTime());
  if (pump_posted_) return;
  pump_posted_ = true;
  loop_->Post(lifetime_.Guard([this] {
    pump_posted_ = false;
    Pump();
  }));
}

// ---- working ----

void Controller::Lead() {
  leading_ = true;
  LoadKeys();
}

void Controller::LoadKeys() {
  const auto take = [this](kube::ApiResult<MasterKeys> keys) {
    if (stopped_) return;
    if (keys.ok()) {
      keys_ = std::move(*keys);
      return Pump();
    }
    spdlog::error("no master key: {}: {}", kube::ToString(keys.error().kind), keys.error().message);
    loop_->StartTimer(BootTime() + kKeyRetry, lifetime_.Guard([this] { LoadKeys(); }));
  };
  LoadMasterKeys(client_, options_.system_namespace, lifetime_.Hop(loop_, take));
}

void Controller::Pump() {
  if (!leading_ || stopped_ || !keys_ || !synced()) return;
  timer_.Cancel();
  const Time now = BootTime();
  while (orders_ < kOrdersAtOnce) {
    const std::optional<kube::Work> work = queue_.Take(now);
    if (!work) break;
    Work(*work);
  }
  if (orders_ == kOrdersAtOnce) return;  // until one is carried out
  timer_.WakeAt(queue_.NextWake());
}

void Controller::Forget(const JobKey& key) {
  link_.Forget(NameOf(key));
  const auto record = records_.find(key);
  if (record != records_.end()) {
    figures_.SetState(std::nullopt, &record->second);
    records_.erase(record);
  }
  std::erase_if(waiting_for_nodes_, [&](const auto& each) { return each.second == key; });
}

void Controller::Work(const kube::Work& work) {
  const JobKey& key = work.key;
  if (work.stale) return Refresh(key);
  const kube::JobView* view = caches_.jobs.Find(key);
  if (view == nullptr) {
    Forget(key);
    queue_.Done(key, BootTime(), kube::Outcome::kOk);
    return;
  }
  JobRecord& record = records_[key];
  if (record.uncertain) {
    record.uncertain = false;
    return Refresh(key);
  }
  if (!record.uid.empty() && record.uid != view->meta.uid) link_.Forget(NameOf(key));
  if (Status learned = Learn(*view, &record); !learned.ok()) {
    spdlog::error("{}: its status cannot be read, nothing is decided: {}", NameOf(key),
                  learned.error().message);
    queue_.Done(key, BootTime(), kube::Outcome::kRetry);
    return;
  }
  if (!GiveKey(&record)) {
    spdlog::error("{}: Secret {} does not hold version {}", NameOf(key), kMasterKeySecret,
                  record.status.agent.key_version);
    queue_.Done(key, BootTime(), kube::Outcome::kRetry);
    return;
  }
  figures_.SetState(record.status.state, &record);
  const Time began = BootTime();
  const Snapshot snapshot = Take(*view, record);
  SetPeers(key, record, snapshot);
  Decision decision = Decide(snapshot, {WallNow(), began});
  queue_wait_->Observe(Seconds(work.waited));
  reconcile_->Observe(Seconds(BootTime() - began));
  CarryOut(key, &record, std::move(decision));
}

bool Controller::GiveKey(JobRecord* record) const {
  if (record->has_key) return true;
  const int32_t wanted = record->status.agent.key_version;
  const std::vector<uint8_t>* master = keys_->Find(wanted == 0 ? keys_->newest() : wanted);
  if (master == nullptr) return false;
  Result<Key> key = GangKey(*master, record->job);
  if (!key.ok()) return false;
  record->key = *key;
  record->has_key = true;
  return true;
}

Snapshot Controller::Take(const kube::JobView& view, const JobRecord& record) {
  const JobKey key{view.meta.name_space, view.meta.name};
  Snapshot snapshot;
  snapshot.job = &record.job;
  snapshot.problems = record.problems;
  snapshot.namespace_name = key.name_space;
  snapshot.uid = record.uid;
  snapshot.generation = record.generation;
  snapshot.created = view.meta.created;
  snapshot.deleting = record.deleting;
  snapshot.status = record.status;
  snapshot.agent = {options_.agent_image, kPlanVersion, keys_->newest()};
  for (const kube::PodView* pod : caches_.pods.ByJob(key)) {
    if (pod->meta.owner_uid != record.uid) continue;
    const bool on_node = options_.watches_nodes && !pod->node.empty();
    snapshot.machines.push_back(ObservationOf(
        *pod, on_node ? StateOf(caches_.nodes.Find({"", pod->node})) : NodeState::kWell));
  }
  snapshot.has_names =
      caches_.OwnService({key.name_space, core::ServiceName(key.name)}, record.uid) != nullptr;
  if (const kube::ServiceView* service = caches_.OwnService(
          {key.name_space, core::CoordinatorServiceName(key.name)}, record.uid)) {
    snapshot.coordinator_address = {service->meta.uid, service->cluster_ip,
                                    service->selector_attempt};
  }
  snapshot.coordinator = record.coordinator;
  snapshot.member = record.member;
  snapshot.desired_state_accepted = record.desired && link_.Accepted(NameOf(key), *record.desired);
  snapshot.gang_error = link_.LastError(NameOf(key));
  snapshot.notes = record.notes;
  snapshot.memory = record.memory;
  snapshot.replacements_allowed = replacements_.Allowed(caches_.pods.size(), BootTime());
  snapshot.oldest_waiting = IsOldestWaiting(view);
  return snapshot;
}

void Controller::SetPeers(const JobKey& key, const JobRecord& record, const Snapshot& snapshot) {
  gang::GangPeers peers;
  peers.job_uid = record.uid;
  peers.key = record.key;
  peers.machine_lost_after = record.job.spec.failure_policy.machine_lost_after;
  for (const Machine& machine : Machines(snapshot)) {
    if (machine.life != Life::kRunning || machine.seen->address.empty()) continue;
    peers.members.push_back(
        {machine.index, machine.attempt, {machine.seen->address, core::kGangPort}});
  }
  if (peers.members.empty() || snapshot.deleting || IsFinished(snapshot.status)) {
    link_.Forget(NameOf(key));
  } else {
    link_.Set(NameOf(key), std::move(peers));
  }
}

bool Controller::IsOldestWaiting(const kube::JobView& view) const {
  return waiting_for_nodes_.empty() ||
         *waiting_for_nodes_.begin() >=
             std::pair(view.meta.created, JobKey{view.meta.name_space, view.meta.name});
}

void Controller::CarryOut(const JobKey& key, JobRecord* record, Decision decision) {
  record->memory = std::move(decision.memory);
  if (decision.nothing_missing) record->TakeBackRefusal();
  // The end of an earlier attempt has been decided on.
  std::erase_if(record->notes.vanished, [&](const auto& each) {
    return each.first.second != record->status.attempts.Of(static_cast<int>(each.first.first));
  });
  record->desired = decision.desired;
  if (decision.desired) link_.SetDesiredState(NameOf(key), decision.desired);
  if (decision.wake != kNever) queue_.AddAt(key, decision.wake, Priority::kNormal);
  if (!decision.intent && !decision.status && decision.actions.empty()) {
    queue_.Done(key, BootTime(), kube::Outcome::kOk);
    return;
  }
  replacements_.Replaced(decision.replacements, BootTime());
  Order order;
  order.job = key;
  order.uid = record->uid;
  order.resource_version = record->resource_version;
  order.decision = std::move(decision);
  // The record outlives the order or is of no interest any more: both belong to this thread.
  order.body_of = [this, key](const Action& action) -> Result<std::string> {
    const auto found = records_.find(key);
    if (found == records_.end()) return Error::NotFound("the job is gone");
    return ObjectOf(action, found->second, caches_, options_.delivery);
  };
  std::optional<core::JobStatus> written =
      order.decision.intent ? order.decision.intent : order.decision.status;
  ++orders_;
  executor_.Carry(std::move(order),
                  [this, key, uid = record->uid, written = std::move(written)](
                      const WriteResult& carried) { OnWritten(key, uid, written, carried); });
}

void Controller::OnWritten(const JobKey& key, const std::string& uid,
                           const std::optional<core::JobStatus>& written,
                           const WriteResult& carried) {
  --orders_;
  const Time now = BootTime();
  for (const WriteResult::Written& each : carried.written) {
    queue_.Park(key, each.resource, each.version, now);
  }
  const auto found = records_.find(key);
  if (found != records_.end() && found->second.uid == uid) {
    Notes& notes = found->second.notes;
    notes.key_made |= carried.key_made;
    notes.made.insert(carried.pods_made.begin(), carried.pods_made.end());
    found->second.uncertain = carried.uncertain;
    if (carried.refusal) {
      notes.refusal = carried.refusal;
      notes.make_again =
          now + DoubledPause(kFirstRefusalPause, kLongestRefusalPause, found->second.refusals++);
    } else if (carried.complete && carried.made_something) {
      found->second.TakeBackRefusal();
    }
    if (carried.refusal || carried.key_made) Wake(key.name_space, key.name, Priority::kNormal);
    if (carried.status_written && written) {
      // The record holds it; a cache that is behind is seen to be, where versions can be compared.
      if (!kube::IsResourceVersion(carried.job_version)) {
        queue_.Park(key, Watched::kTrainingJobs, carried.job_version, now);
      }
      Wake(key.name_space, key.name, Priority::kNormal);
      OnStatusWritten(key, &found->second, *written, carried.job_version);
    }
  }
  queue_.Done(key, now, carried.complete ? kube::Outcome::kOk : kube::Outcome::kRetry);
  if (stopped_) return;
  Pump();
}

void Controller::OnStatusWritten(const JobKey& key, JobRecord* record,
                                 const core::JobStatus& status, const std::string& version) {
  if (const kube::JobView* view = caches_.jobs.Find(key); view != nullptr) {
    figures_.OnWritten(record->status, status, WallNow() - view->meta.created);
    const std::pair place(view->meta.created, key);
    if (status.state == core::JobState::kPending && !status.attempts.empty()) {
      waiting_for_nodes_.insert(place);
    } else {
      waiting_for_nodes_.erase(place);
    }
  }
  // What the server answered is what was sent, in its next version: no need to read it again.
  record->status = status;
  record->resource_version = version;
}

void Controller::Refresh(const JobKey& key) {
  refresher_.Read(key, [this, key](bool ok) {
    // Whatever was read counts, also from a server that went back to an older state.
    if (const auto record = records_.find(key); ok && record != records_.end()) {
      record->second.resource_version.clear();
    }
    queue_.Done(key, BootTime(), ok ? kube::Outcome::kOk : kube::Outcome::kRetry);
    if (ok) Wake(key.name_space, key.name, Priority::kNormal);
    Pump();
  });
}

}  // namespace lockstep::control
