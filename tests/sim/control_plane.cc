// The API server's side, and what is done to the operator. Its replicas stand in replicas.cc.
#include "tests/sim/control_plane.h"

#include <algorithm>

#include "base/fingerprint.h"
#include "core/model/names.h"
#include "operator/policy/facts/gang_state.h"
#include "tests/sim/world.h"

namespace lockstep::sim {
namespace {

constexpr uint32_t kFirstEpoch = 1;
// What agents and cleaning up take after the end; then nothing is written any more.
constexpr Duration kCleaning = seconds(60);
constexpr Duration kQuiet = seconds(20);
// What a replica decides by may be as old as this.
constexpr Duration kOldest = seconds(10);
constexpr Duration kOneRound = milliseconds(500);

}  // namespace

ControlPlane::ControlPlane(World& world)
    : Operator(world), kubelets_(world, api_), queue_(world, api_) {
  for (uint32_t i = 0; i < replicas_.size(); ++i) replicas_[i].index = i;
}

void ControlPlane::Begin() {
  api_.Watch([this](Kind kind, uint64_t version, const ApiServer::Change& change) {
    for (Replica& replica : replicas_) Deliver(replica, kind, version, change);
  });
  highest_.assign(world_.shape().machines, 0);
  longest_l_ = world_.shape().lost_after;
  ChangeSpec([&](core::Spec& spec) {
    spec = SpecOf();
    spec.spare_machines = static_cast<int32_t>(world_.schedule().spares);
  });
  kubelets_.Begin();
  if (world_.schedule().queued) {
    queue_.Begin([this](const ApiServer::Change& change) { api_.Apply(Kind::kWorkloads, change); });
  }
  Lead(replicas_[0]);
}

void ControlPlane::ChangeSpec(const std::function<void(core::Spec&)>& change) {
  core::Spec spec = api_.objects().spec;
  change(spec);
  api_.Apply(Kind::kJob, [spec](Objects& objects) {
    objects.spec = spec;
    ++objects.generation;
  });
}

// ---- faults and the user ----

// At once, or just before or after one of its next writes.
void ControlPlane::Down(Duration duration) {
  Replica* leader = Leader();
  if (leader == nullptr) return;
  Replica& next = replicas_[1 - leader->index];
  world_.queue().After(duration, [this, &next] {
    if (Leader() == nullptr) Lead(next);
  });
  if (world_.random().Chance(40)) return Crash(*leader);
  leader->crash_in = static_cast<int>(world_.random().Below(6));
  world_.queue().After(duration, [this, leader, &next] {
    if (next.leads || leader->crash_in < 0) return;
    Crash(*leader);
    Lead(next);
  });
}

void ControlPlane::Pause(Duration duration) {
  Replica* leader = Leader();
  if (leader == nullptr || replicas_[1 - leader->index].leads) return;
  Lead(replicas_[1 - leader->index]);
  world_.Log("two leaders at once");
  world_.queue().After(duration, [this, leader, life = leader->life] {
    if (leader->life == life) Crash(*leader);
  });
}

void ControlPlane::Suspend() {
  world_.Log("user suspends the job");
  ChangeSpec([](core::Spec& spec) { spec.suspend = true; });
}

void ControlPlane::Resume() {
  world_.Log("user resumes the job");
  ChangeSpec([](core::Spec& spec) { spec.suspend = false; });
}

void ControlPlane::SetL(Duration length) {
  world_.Log("user sets machineLostAfter to ", length.count() / 1'000'000, " ms");
  longest_l_ = std::max(longest_l_, length);
  ChangeSpec([&](core::Spec& spec) { spec.failure_policy.machine_lost_after = length; });
}

void ControlPlane::Greed(Duration duration) { greedy_until_ = world_.now() + duration; }

void ControlPlane::StaleService(Duration duration) { stale_until_ = world_.now() + duration; }

// An etcd that is restored: kubelets end what the API server knows nothing of, and the operator is
// started again or sees it all by its watches.
void ControlPlane::GoBack(Duration later, Duration most) {
  world_.queue().After(later, [this, most, before = api_.objects()] {
    if (finished_ != kNever) return;  // it would be a job that runs again
    world_.Log("the API server goes back to epoch ", before.status.epoch);
    JudgeGoingBack(before.status);
    // Spares that were told to leave, or left, stay after all: no leader can know that at once.
    const auto& now = api_.objects().pods;
    for (const auto& [name, pod] : before.pods) {
      const auto found = now.find(name);
      const bool stayed = found != now.end() && !found->second.leave_by;
      if (!pod.leave_by && !stayed) brought_back_.insert(pod.uid);
    }
    const bool suspended = api_.objects().spec.suspend;
    api_.Apply(Kind::kJob, [before](Objects& objects) {
      objects.spec = before.spec;
      objects.generation = before.generation;
      objects.status = before.status;
    });
    api_.Apply(Kind::kPods, [before](Objects& objects) { objects.pods = before.pods; });
    api_.Apply(Kind::kServices, [before](Objects& objects) {
      objects.has_names = before.has_names;
      objects.coordinator = before.coordinator;
      objects.slices = before.slices;
      objects.leads_to = before.leads_to;
    });
    // The user sees to it that the job runs.
    if (suspended != before.spec.suspend) {
      ChangeSpec([suspended](core::Spec& spec) { spec.suspend = suspended; });
    }
    kubelets_.EndUnknown(most);
    if (Replica* leader = Leader(); leader != nullptr && world_.random().Chance(50)) {
      Crash(*leader);
    }
  });
}

// ---- what others see ----

std::optional<Node> ControlPlane::Endpoint() const {
  const Objects& objects = api_.objects();
  if (!objects.coordinator || !objects.leads_to) return std::nullopt;
  std::optional<Node> now;
  std::optional<Node> before;
  for (const auto& machine : world_.machines()) {
    const MachineSpec& spec = machine->spec();
    if (spec.index != 0) continue;
    if (spec.attempt == objects.leads_to) {
      now = machine->node();
    } else {
      before = machine->node();
    }
  }
  return world_.now() < stale_until_ && before ? before : now;
}

bool ControlPlane::over() const {
  if (finished_ == kNever || world_.now() <= finished_ + kCleaning + kQuiet) return false;
  for (const auto& [name, pod] : api_.objects().pods) {
    if (pod.spare < 0 || pod.leave_by) continue;
    world_.invariants().Violate("NoSpareOutlivesItsJob", name + " holds its node long after");
  }
  return true;
}

// ---- the API server ----

ControlPlane::Answer ControlPlane::Wrote(Kind kind, const ApiServer::Change& change) {
  if (finished_ != kNever && world_.now() > finished_ + kCleaning) {
    world_.invariants().Violate("NothingIsWrittenOnceAllIsSaid", "a write long after the end");
  }
  Answer answer;
  answer.ok = true;
  answer.kind = kind;
  answer.version = api_.Apply(kind, change);
  return answer;
}

ControlPlane::Answer ControlPlane::Wrote(const std::optional<ApiServer::Change>& change) {
  return change ? Wrote(Kind::kWorkloads, *change) : Answer{};
}

// Who finds it there reads it, and waits until its cache has come as far.
ControlPlane::Answer ControlPlane::Found(Kind kind) const {
  return {.ok = true, .kind = kind, .version = api_.objects().seen.at(static_cast<size_t>(kind))};
}

ControlPlane::Answer ControlPlane::WriteStatus(uint64_t version, const core::JobStatus& status) {
  const bool stale = api_.objects().job_version != version;
  if (stale && !world_.Mutated("NoCompareAndSwap")) return {};
  Judge(api_.objects().status, status);
  return Wrote(Kind::kJob, [status](Objects& objects) { objects.status = status; });
}

ControlPlane::Answer ControlPlane::Carry(const control::Action& action,
                                         const core::JobStatus& known) {
  const Objects& objects = api_.objects();
  if (const auto* pod = std::get_if<control::StartMachine>(&action)) return CreatePod(*pod, known);
  if (const auto* spare = std::get_if<control::StartSpare>(&action)) return CreateSpare(*spare);
  if (const auto* pod = std::get_if<control::StopMachine>(&action)) return Delete(*pod);
  if (std::holds_alternative<control::MakeKey>(action)) {
    Answer answer;
    answer.ok = true;
    return answer;
  }
  if (std::holds_alternative<control::MakeNames>(action)) {
    if (objects.has_names) return Found(Kind::kServices);
    return Wrote(Kind::kServices, [](Objects& all) { all.has_names = true; });
  }
  if (std::holds_alternative<control::MakeCoordinatorAddress>(action)) {
    if (objects.coordinator) return Found(Kind::kServices);
    return Wrote(Kind::kServices, [](Objects& all) {
      all.coordinator = {.uid = "service", .address = "10.96.0.7"};
    });
  }
  if (const auto* slice = std::get_if<control::WriteSlice>(&action)) return WriteOf(*slice);
  if (const auto* make = std::get_if<control::MakeWorkload>(&action)) {
    return queue_.Has(*make) ? Found(Kind::kWorkloads) : Wrote(queue_.MadeBy(*make));
  }
  if (const auto* resize = std::get_if<control::ResizeWorkload>(&action)) {
    return Wrote(queue_.ResizedBy(*resize));
  }
  if (const auto* tell = std::get_if<control::TellWorkload>(&action)) {
    return Wrote(queue_.ToldBy(*tell));
  }
  if (const auto* release = std::get_if<control::ReleaseWorkload>(&action)) {
    return Wrote(queue_.ReleasedBy(*release));
  }
  if (const auto* drop = std::get_if<control::DropWorkload>(&action)) {
    return Wrote(queue_.DroppedBy(*drop));
  }
  return {};
}

ControlPlane::Answer ControlPlane::WriteOf(const control::WriteSlice& write) {
  const bool there = api_.objects().slices.contains(write.key);
  if (there && write.uid.empty()) return Found(Kind::kServices);
  if (!there && !write.uid.empty()) return {.gone = true};
  Fingerprint print;
  std::optional<uint32_t> leads_to;
  for (const core::MachineEndpoint& each : write.endpoints) {
    print.Add(each.uid).Add(each.address);
    leads_to = each.attempt;
  }
  return Wrote(Kind::kServices, [key = write.key, print, leads_to](Objects& all) {
    all.slices[key] = {"slice", print.value()};
    if (key.coordinator) all.leads_to = leads_to;
  });
}

ControlPlane::Answer ControlPlane::CreatePod(const control::StartMachine& create,
                                             const core::JobStatus& known) {
  const std::string name =
      core::PodName("gpt", static_cast<int>(create.machine), create.attempt, kFirstEpoch);
  // Ours, from an earlier try.
  if (api_.objects().pods.contains(name)) return Found(Kind::kPods);
  control::MachineObservation pod;
  pod.name = name;
  pod.uid = name + "/" + std::to_string(world_.NextPid());
  pod.created = WallOf(world_.now());
  pod.machine = static_cast<int32_t>(create.machine);
  pod.attempt = create.attempt;
  if (kubelets_.HasRoom()) pod.stage = control::Stage::kPlaced;
  for (const auto& [other, seen] : api_.objects().pods) {
    const bool stays = seen.spare >= 0 && seen.node == create.spare_node && !seen.leave_by &&
                       !brought_back_.contains(seen.uid);
    if (stays && !create.spare_node.empty()) {
      std::string what = name;
      what.append(" is to have the node of ").append(other);
      world_.invariants().Violate("ASpareLeavesFirst", what);
    }
  }
  const core::JobStatus& recorded = api_.objects().status;
  JudgeMade(create.machine, create.attempt, known, recorded);
  if (world_.schedule().queued &&
      recorded.attempts.Of(static_cast<int>(create.machine)) == create.attempt) {
    queue_.JudgeMade(name, create.machine);
  }
  MachineSpec spec;
  spec.index = create.machine;
  spec.attempt = create.attempt;
  spec.machine0_attempt = known.attempts.Of(0);
  spec.predecessor_dead = create.predecessor_dead || world_.Mutated("PredecessorAssumedDead");
  for (int i = 0; i < known.attempts.size(); ++i) spec.attempts.push_back(known.attempts.Of(i));
  core::FailurePolicy policy = api_.objects().spec.failure_policy;
  policy.machine_lost_after = std::max(policy.machine_lost_after, known.machine_lost_after);
  kubelets_.OnPod(name, spec, policy);
  world_.Log("pod ", name,
             pod.stage == control::Stage::kPlaced ? " is made" : " is made, and finds no node");
  return Wrote(Kind::kPods, [pod](Objects& objects) { objects.pods[pod.name] = pod; });
}

ControlPlane::Answer ControlPlane::CreateSpare(const control::StartSpare& create) {
  control::MachineObservation pod;
  pod.name = core::SparePodName("gpt", static_cast<int>(create.number));
  // Ours, from an earlier try.
  if (api_.objects().pods.contains(pod.name)) return Found(Kind::kPods);
  pod.uid = pod.name + "/" + std::to_string(world_.NextPid());
  pod.created = WallOf(world_.now());
  pod.spare = static_cast<int32_t>(create.number);
  pod.node = "node-of-" + pod.uid;
  if (kubelets_.HasRoom()) pod.stage = control::Stage::kPlaced;
  world_.Log("spare ", pod.name, " is made");
  return Wrote(Kind::kPods, [pod](Objects& objects) { objects.pods[pod.name] = pod; });
}

void ControlPlane::JudgeMove(const control::MachineObservation& pod) {
  Invariants& invariants = world_.invariants();
  if (!kubelets_.WasSick(pod.uid)) {
    invariants.Violate("MovesHaveACause", pod.name + " is asked to leave a node that is well");
    return;
  }
  if (world_.shape().moves_never) {
    invariants.Violate("MovesAsPolicySays",
                       pod.name + " is asked to leave, and the job's nodeHealth is Ignore");
    return;
  }
  if (world_.now() > moved_at_ + kOneRound) moved_.clear();
  moved_.insert(pod.uid);
  moved_at_ = world_.now();
  if (moved_.size() > kubelets_.MostPlacesSince(world_.now() - kOldest)) {
    invariants.Violate("MovesNeedAPlace", pod.name + " is asked to leave, and has nowhere to go");
  }
  const bool waits = std::ranges::any_of(replicas_, [](const Replica& replica) {
    return replica.coordinator &&
           replica.coordinator->status.phase == core::GangPhase(core::CoordinatorPhase::kBackoff);
  });
  // An operator may hear of a commit so much later.
  const bool committed = invariants.committed_at() + kOldest >= kubelets_.SickAt(pod.uid);
  if (!world_.shape().moves_now && !committed && !waits) {
    invariants.Violate("MovesAwaitACommit", pod.name +
                                                " is asked to leave, and no checkpoint was "
                                                "committed since its node fell sick");
  }
}

ControlPlane::Answer ControlPlane::Delete(const control::StopMachine& deletion) {
  const auto found = api_.objects().pods.find(deletion.name);
  if (found == api_.objects().pods.end()) return {.gone = true};
  if (found->second.uid != deletion.uid) return {};
  const control::MachineObservation& pod = found->second;
  const core::JobStatus& status = api_.objects().status;
  const bool current = pod.spare < 0 && status.attempts.Of(pod.machine) == pod.attempt;
  if (current && !deletion.grace_seconds && !control::IsFinished(status) && !went_back()) {
    JudgeMove(pod);
  }
  const Duration own = api_.objects().spec.grace_period + seconds(15);
  const Duration grace = deletion.grace_seconds ? seconds(*deletion.grace_seconds) : own;
  const WallTime by = WallOf(world_.now()) + grace;
  world_.Log("pod ", deletion.name, " is deleted");
  return Wrote(Kind::kPods, [name = deletion.name, by](Objects& objects) {
    std::optional<WallTime>& leave_by = objects.pods.at(name).leave_by;
    leave_by = leave_by ? std::min(*leave_by, by) : by;
  });
}

}  // namespace lockstep::sim
