#include "operator/control/controller.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/overloaded.h"
#include "base/wall_time.h"
#include "core/job/names.h"
#include "operator/control/decide.h"
#include "operator/control/key_secret.h"
#include "operator/control/machines.h"
#include "operator/control/policies.h"
#include "operator/control/service_objects.h"
#include "operator/kube/api.h"
#include "operator/kube/decode.h"

namespace lockstep::control {
namespace {

using kube::Priority;
using kube::Watched;

constexpr Duration kKeyRetry = seconds(2);
constexpr Duration kFirstRefusalPause = milliseconds(500);
constexpr Duration kLongestRefusalPause = seconds(60);
constexpr int kPlanVersion = 1;
constexpr int kFewestReplacements = 10;  // a minute, however small the cluster

std::string NameOf(const kube::ObjectName& job) { return job.name_space + "/" + job.name; }

const kube::ServiceView* OwnService(const kube::Cache<kube::ServiceView>& services,
                                    const kube::ObjectName& job, const std::string& name,
                                    const std::string& uid) {
  const kube::ServiceView* service = services.Find({job.name_space, name});
  return service != nullptr && service->meta.owner_uid == uid ? service : nullptr;
}

// A quota or a name may be free again soon, or in an hour.
Duration RefusalPause(int refusals) {
  Duration pause = kFirstRefusalPause;
  for (int i = 0; i < refusals && pause < kLongestRefusalPause; ++i) pause *= 2;
  return std::min(pause, kLongestRefusalPause);
}

// An event that should not wait behind others: something ended.
bool IsUrgent(const kube::PodView* before, const kube::PodView* after) {
  if (after == nullptr) return true;
  return IsOver(*after) && (before == nullptr || !IsOver(*before));
}

}  // namespace

Controller::Controller(EventLoop* loop, kube::Client* client, kube::EventRecorder* events,
                       Metrics* metrics, ControllerOptions options)
    : loop_(loop),
      client_(client),
      metrics_(metrics),
      options_(std::move(options)),
      executor_(loop, client, events),
      link_(loop, {},
            {.on_status =
                 [this](const std::string& job, const core::GangStatus& status, Time at) {
                   const size_t slash = job.find('/');
                   const JobKey key{job.substr(0, slash), job.substr(slash + 1)};
                   const auto record = records_.find(key);
                   if (record == records_.end()) return;
                   Learn(status, at, &record->second);
                   Wake(key.name_space, key.name, Priority::kNormal);
                 },
             .on_accepted =
                 [this](const std::string& job) {
                   const size_t slash = job.find('/');
                   Wake(job.substr(0, slash), job.substr(slash + 1), Priority::kNormal);
                 }}),
      alive_(std::make_shared<bool>(true)) {}

Controller::~Controller() {
  *alive_ = false;
  loop_->CancelTimer(timer_);
}

// ---- what is seen ----

template <typename T>
void Controller::Hand(uint64_t round, Watched resource, kube::Batch<T> batch,
                      void (Controller::*apply)(kube::Batch<T>)) {
  loop_->PostFromAnyThread(
      [this, alive = alive_, round, resource, apply, batch = std::move(batch)]() mutable {
        if (!*alive || round != round_) return;
        if (batch.replace) whole_.insert(resource);
        (this->*apply)(std::move(batch));
      });
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
  const Priority priority = batch.replace ? Priority::kBackground : Priority::kNormal;
  jobs_.Apply(std::move(batch), [&](const kube::JobView* before, const kube::JobView* after) {
    const kube::ObjectMeta& meta = (after != nullptr ? after : before)->meta;
    Wake(meta.name_space, meta.name, priority);
  });
  queue_.Progress(Watched::kTrainingJobs, jobs_.resource_version(), BootTime());
  Pump();
}

void Controller::ApplyPods(kube::Batch<kube::PodView> batch) {
  pods_.Apply(std::move(batch), [&](const kube::PodView* before, const kube::PodView* after) {
    const kube::PodView& pod = after != nullptr ? *after : *before;
    if (after == nullptr) Mourn(pod);
    Wake(pod.meta.name_space, pod.job,
         IsUrgent(before, after) ? Priority::kUrgent : Priority::kNormal);
  });
  queue_.Progress(Watched::kPods, pods_.resource_version(), BootTime());
  Pump();
}

// How it ended counts, though it is gone before anything was decided.
void Controller::Mourn(const kube::PodView& pod) {
  const auto record = records_.find({pod.meta.name_space, pod.job});
  if (record == records_.end() || record->second.uid != pod.meta.owner_uid || pod.machine < 0) {
    return;
  }
  const Incarnation incarnation{static_cast<uint32_t>(pod.machine), pod.attempt};
  Memory& memory = record->second.memory;
  memory.existed.insert(incarnation);
  if (IsOver(pod)) memory.ended.insert(incarnation);
  memory.vanished.insert_or_assign(incarnation, pod);
}

void Controller::ApplyServices(kube::Batch<kube::ServiceView> batch) {
  services_.Apply(std::move(batch),
                  [&](const kube::ServiceView* before, const kube::ServiceView* after) {
                    const kube::ServiceView& service = after != nullptr ? *after : *before;
                    Wake(service.meta.name_space, service.job, Priority::kNormal);
                  });
  queue_.Progress(Watched::kServices, services_.resource_version(), BootTime());
  Pump();
}

// Only a node that goes, or is declared out of service, changes what is decided.
void Controller::ApplyNodes(kube::Batch<kube::NodeView> batch) {
  std::set<std::string> changed;
  nodes_.Apply(std::move(batch), [&](const kube::NodeView* before, const kube::NodeView* after) {
    const bool was_fine = before == nullptr || !before->out_of_service;
    const bool is_lost = after == nullptr || after->out_of_service;
    if (was_fine && is_lost) changed.insert((after != nullptr ? after : before)->meta.name);
  });
  queue_.Progress(Watched::kNodes, nodes_.resource_version(), BootTime());
  if (!changed.empty()) {
    pods_.ForEach([&](const kube::PodView& pod) {
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
  loop_->Post([this, alive = alive_] {
    if (!*alive) return;
    pump_posted_ = false;
    Pump();
  });
}

// ---- working ----

void Controller::Lead() {
  leading_ = true;
  LoadKeys();
}

void Controller::LoadKeys() {
  LoadMasterKeys(client_, options_.system_namespace,
                 [this, alive = alive_](kube::ApiResult<MasterKeys> keys) {
                   loop_->PostFromAnyThread([this, alive, keys = std::move(keys)]() mutable {
                     if (!*alive || stopped_) return;
                     if (keys.ok()) {
                       keys_ = std::move(*keys);
                       return Pump();
                     }
                     spdlog::error("no master key: {}: {}", kube::ToString(keys.error().kind),
                                   keys.error().message);
                     loop_->StartTimer(BootTime() + kKeyRetry, [this, alive] {
                       if (*alive) LoadKeys();
                     });
                   });
                 });
}

void Controller::Pump() {
  if (!leading_ || stopped_ || !keys_ || !synced()) return;
  const Time now = BootTime();
  while (std::optional<kube::Work> work = queue_.Take(now)) Work(*work);
  loop_->CancelTimer(timer_);
  timer_ = 0;
  if (const Time wake = queue_.NextWake(); wake != kNever) {
    timer_ = loop_->StartTimer(wake, [this, alive = alive_] {
      if (!*alive) return;
      timer_ = 0;
      Pump();
    });
  }
}

void Controller::Forget(const JobKey& key) {
  link_.Forget(NameOf(key));
  const auto record = records_.find(key);
  if (record != records_.end()) {
    CountState(&record->second, std::nullopt);
    records_.erase(record);
  }
  std::erase_if(waiting_for_nodes_, [&](const auto& each) { return each.second == key; });
}

void Controller::Work(const kube::Work& work) {
  const JobKey& key = work.key;
  if (work.stale) return Refresh(key);
  const kube::JobView* view = jobs_.Find(key);
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
  CountState(&record, record.status.state);
  const Time began = BootTime();
  const Snapshot snapshot = Take(*view, record);
  SetPeers(key, record, snapshot);
  Decision decision = Decide(snapshot, {WallNow(), began});
  metrics_->OnDecided(work.waited, BootTime() - began);
  CarryOut(key, &record, std::move(decision));
}

void Controller::CountState(JobRecord* record, std::optional<core::JobState> state) {
  if (record->counted == state) return;
  if (record->counted) --jobs_by_state_[*record->counted];
  if (state) ++jobs_by_state_[*state];
  record->counted = state;
  metrics_->SetJobs(jobs_by_state_);
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

Snapshot Controller::Take(const kube::JobView& view, const JobRecord& record) const {
  const JobKey key{view.meta.name_space, view.meta.name};
  Snapshot snapshot;
  snapshot.job = &record.job;
  snapshot.problems = record.problems;
  snapshot.namespace_name = key.name_space;
  snapshot.uid = record.uid;
  snapshot.generation = view.meta.generation;
  snapshot.created = view.meta.created;
  snapshot.deleting = view.meta.deleted.has_value();
  snapshot.status = record.status;
  snapshot.agent = {options_.agent_image, kPlanVersion, keys_->newest()};
  for (const kube::PodView* pod : pods_.ByJob(key)) {
    if (pod->meta.owner_uid != record.uid) continue;
    snapshot.pods.push_back(pod);
    if (options_.watches_nodes && !pod->node.empty()) {
      snapshot.nodes[pod->node] = nodes_.Find({"", pod->node});
    }
  }
  snapshot.headless = OwnService(services_, key, core::ServiceName(key.name), record.uid);
  snapshot.coordinator_service =
      OwnService(services_, key, core::CoordinatorServiceName(key.name), record.uid);
  snapshot.coordinator = record.coordinator;
  snapshot.member = record.member;
  snapshot.wish_accepted = record.wish && link_.Accepted(NameOf(key), *record.wish);
  snapshot.memory = record.memory;
  snapshot.replacements_allowed = ReplacementsAllowed();
  snapshot.oldest_waiting = IsOldestWaiting(view);
  return snapshot;
}

void Controller::SetPeers(const JobKey& key, const JobRecord& record, const Snapshot& snapshot) {
  gang::GangPeers peers;
  peers.job_uid = record.uid;
  peers.key = record.key;
  peers.machine_lost_after = record.job.spec.failure_policy.machine_lost_after;
  for (const Machine& machine : Machines(snapshot)) {
    if (machine.life != Life::kRunning || machine.pod->pod_ip.empty()) continue;
    peers.members.push_back(
        {machine.index, machine.attempt, {machine.pod->pod_ip, core::kGangPort}});
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

// A brake: whatever makes machines look lost by the hundred, they are not replaced by the hundred.
int Controller::ReplacementsAllowed() const {
  const Time now = BootTime();
  const auto recent = std::count_if(replacements_.begin(), replacements_.end(),
                                    [&](Time at) { return at > now - minutes(1); });
  const int most = std::max(kFewestReplacements, static_cast<int>(pods_.size() / 20));
  return most - static_cast<int>(recent);
}

void Controller::CarryOut(const JobKey& key, JobRecord* record, Decision decision) {
  record->memory = std::move(decision.memory);
  record->wish = decision.wish;
  if (decision.wish) link_.SetWish(NameOf(key), decision.wish);
  if (decision.wake != kNever) queue_.AddAt(key, decision.wake, Priority::kNormal);
  if (!decision.intent && !decision.status && decision.actions.empty()) {
    queue_.Done(key, BootTime(), kube::Outcome::kOk);
    return;
  }
  for (int i = 0; i < decision.replacements; ++i) replacements_.push_back(BootTime());
  while (!replacements_.empty() && replacements_.front() < BootTime() - minutes(1)) {
    replacements_.pop_front();
  }
  Order order;
  order.job = key;
  order.uid = record->uid;
  order.resource_version = record->resource_version;
  order.decision = std::move(decision);
  // The record outlives the order or is of no interest any more: both belong to this thread.
  order.body_of = [this, key](const Action& action) -> Result<std::string> {
    const auto found = records_.find(key);
    if (found == records_.end()) return Error::NotFound("the job is gone");
    return BodyOf(found->second, action);
  };
  std::optional<core::JobStatus> written =
      order.decision.intent ? order.decision.intent : order.decision.status;
  executor_.Carry(std::move(order),
                  [this, key, uid = record->uid, written = std::move(written)](
                      const Carried& carried) { OnCarried(key, uid, written, carried); });
}

void Controller::OnCarried(const JobKey& key, const std::string& uid,
                           const std::optional<core::JobStatus>& written, const Carried& carried) {
  const Time now = BootTime();
  for (const Carried::Written& each : carried.written) {
    queue_.Park(key, each.resource, each.version, now);
  }
  const auto found = records_.find(key);
  if (found != records_.end() && found->second.uid == uid) {
    Memory& memory = found->second.memory;
    memory.key_made |= carried.key_made;
    memory.existed.insert(carried.pods_made.begin(), carried.pods_made.end());
    found->second.uncertain = carried.uncertain;
    if (carried.refusal) {
      memory.refusal = carried.refusal;
      memory.make_again = now + RefusalPause(memory.refusals++);
    } else if (carried.complete && carried.made_something) {
      memory.refusal.reset();
      memory.refusals = 0;
    }
    if (carried.refusal || carried.key_made) Wake(key.name_space, key.name, Priority::kNormal);
    if (carried.status_written && written) {
      Count(key, found->second.status, *written);
      // What the server answered is what was sent, in its next version: no need to read it again.
      found->second.status = *written;
      found->second.resource_version = carried.job_version;
    }
  }
  queue_.Done(key, now, carried.complete ? kube::Outcome::kOk : kube::Outcome::kRetry);
  if (stopped_) return;
  Pump();
}

// What a written status means for the operator's figures.
void Controller::Count(const JobKey& key, const core::JobStatus& before,
                       const core::JobStatus& after) {
  const kube::JobView* view = jobs_.Find(key);
  if (view == nullptr) return;
  const Duration age = WallNow() - view->meta.created;
  if (before.created_epoch == 0 && after.created_epoch != 0) metrics_->OnPodsMade(age);
  if (!before.timings.started && after.timings.started) metrics_->OnRunning(age);
  const auto grew = [](int32_t a, int32_t b) { return std::max(b - a, 0); };
  for (int i = grew(before.restarts.application, after.restarts.application); i > 0; --i) {
    metrics_->OnRestart(core::CauseClass::kApplication);
  }
  for (int i = grew(before.restarts.infrastructure, after.restarts.infrastructure); i > 0; --i) {
    metrics_->OnRestart(core::CauseClass::kInfrastructure);
  }
  for (int i = grew(before.restarts.stopped, after.restarts.stopped); i > 0; --i) {
    metrics_->OnRestart(core::CauseClass::kStopped);
  }
  const bool waits = after.state == core::JobState::kPending && !after.attempts.empty();
  const std::pair place(view->meta.created, key);
  if (waits) {
    waiting_for_nodes_.insert(place);
  } else {
    waiting_for_nodes_.erase(place);
  }
}

Result<std::string> Controller::BodyOf(const JobRecord& record, const Action& action) const {
  return std::visit(
      Overloaded{
          [&](const CreateKeySecret&) -> Result<std::string> {
            return KeySecretObject(record.job, record.key);
          },
          [&](const CreateHeadlessService&) -> Result<std::string> {
            return HeadlessServiceObject(record.job);
          },
          [&](const CreateCoordinatorService& create) -> Result<std::string> {
            return CoordinatorServiceObject(record.job, create.attempt);
          },
          [&](const PointCoordinatorService& point) -> Result<std::string> {
            return CoordinatorServicePatch(point.uid, point.attempt);
          },
          [&](const CreatePod& create) -> Result<std::string> {
            const kube::ServiceView* service =
                services_.Find({record.job.metadata.name_space,
                                core::CoordinatorServiceName(record.job.metadata.name)});
            if (service == nullptr) return Error::NotFound("the coordinator's Service is gone");
            return PodObject(record.job, record.status,
                             {.machine = create.machine,
                              .attempt = create.attempt,
                              .predecessor_dead = create.predecessor_dead,
                              .coordinator_ip = service->cluster_ip,
                              .avoid_nodes = create.avoid_nodes},
                             options_.delivery);
          },
          [](const auto&) -> Result<std::string> { return Error::Internal("nothing to make"); },
      },
      action);
}

// ---- reading again ----

// A write has not come back for long: the watch may be behind. The job's objects are read from the
// server; what the watch brings later is newer or the same.
void Controller::Refresh(const JobKey& key) {
  struct Reads {
    int open = 3;
    bool failed = false;
  };
  auto reads = std::make_shared<Reads>();
  const auto close = [this, key, reads, alive = alive_](bool ok) {
    reads->failed |= !ok;
    if (--reads->open > 0) return;
    queue_.Done(key, BootTime(), reads->failed ? kube::Outcome::kRetry : kube::Outcome::kOk);
    if (!reads->failed) Wake(key.name_space, key.name, Priority::kNormal);
    Pump();
  };
  const auto read = [this, close](kube::Request request, const auto& on_body) {
    client_->Call(std::move(request), [this, close, on_body,
                                       alive = alive_](kube::ApiResult<std::string> answer) {
      loop_->PostFromAnyThread([alive, close, on_body, answer = std::move(answer)]() mutable {
        if (*alive) close(on_body(std::move(answer)));
      });
    });
  };
  const std::string selector = kube::Query({{"labelSelector", "lockstep.dev/job=" + key.name}});
  read({kube::Method::kGet, kube::Path(kube::kTrainingJobs, key.name_space, key.name), ""},
       [this, key](kube::ApiResult<std::string> answer) {
         if (!answer.ok()) return answer.error().kind == kube::ApiErrorKind::kNotFound;
         kube::Decoder decoder;
         Result<kube::JobView> job = decoder.Object<kube::JobView>(std::move(*answer));
         if (job.ok()) jobs_.Put(std::move(*job), [](const auto*, const auto*) {});
         return job.ok();
       });
  // What the list doesn't hold is gone.
  const auto put_all = [key](kube::ApiResult<std::string> answer, auto* cache, const auto& item) {
    if (!answer.ok()) return false;
    kube::Decoder decoder;
    std::vector<std::decay_t<decltype(item)>> items;
    if (!decoder.Page(std::move(*answer), &items).ok()) return false;
    const auto ignore = [](const auto*, const auto*) {};
    std::set<std::string> gone;
    for (const auto* each : cache->ByJob(key)) gone.insert(each->meta.name);
    for (auto& each : items) {
      gone.erase(each.meta.name);
      cache->Put(std::move(each), ignore);
    }
    for (const std::string& name : gone) cache->Remove({key.name_space, name}, ignore);
    return true;
  };
  read({kube::Method::kGet, kube::Path(kube::kPods, key.name_space, {}, {}, selector), ""},
       [this, put_all](kube::ApiResult<std::string> answer) {
         return put_all(std::move(answer), &pods_, kube::PodView{});
       });
  read({kube::Method::kGet, kube::Path(kube::kServices, key.name_space, {}, {}, selector), ""},
       [this, put_all](kube::ApiResult<std::string> answer) {
         return put_all(std::move(answer), &services_, kube::ServiceView{});
       });
}

}  // namespace lockstep::control
