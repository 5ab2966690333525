// The API server's side, and what is done to the operator. Its replicas stand in replicas.cc.
#include "tests/sim/control_plane.h"

#include <algorithm>

#include "core/model/names.h"
#include "operator/policy/policies.h"
#include "tests/sim/world.h"

namespace lockstep::sim {
namespace {

constexpr uint32_t kFirstEpoch = 1;
// What agents and cleaning up take after the end; then nothing is written any more.
constexpr Duration kCleaning = seconds(60);
constexpr Duration kQuiet = seconds(20);

bool AtLeast(const core::Counters& a, const core::Counters& b) {
  core::Counters merged = a;
  merged.Merge(b);
  return merged == a;
}

}  // namespace

ControlPlane::ControlPlane(World& world) : world_(world), kubelets_(world, api_) {
  for (uint32_t i = 0; i < replicas_.size(); ++i) replicas_[i].index = i;
}

void ControlPlane::Begin() {
  api_.Watch([this](Kind kind, uint64_t version, const ApiServer::Change& change) {
    for (Replica& replica : replicas_) Deliver(replica, kind, version, change);
  });
  const Shape& shape = world_.shape();
  highest_.assign(shape.machines, 0);
  longest_l_ = shape.lost_after;
  ChangeSpec([&](core::Spec& spec) {
    spec.num_machines = static_cast<int32_t>(shape.machines);
    spec.processes_per_machine = static_cast<int32_t>(shape.processes);
    spec.grace_period = shape.grace;
    spec.health.hang_timeout = shape.hang_timeout;
    spec.health.start_timeout = shape.start_timeout;
    spec.failure_policy.machine_lost_after = shape.lost_after;
    spec.failure_policy.max_restarts = shape.max_restarts;
    spec.failure_policy.restart_grace_period = shape.restart_grace;
    spec.failure_policy.max_machine_replacements = 20;
  });
  kubelets_.Begin();
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

void ControlPlane::Suspend(bool) {
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

void ControlPlane::StaleService(Duration duration) { stale_until_ = world_.now() + duration; }

// ---- what others see ----

std::optional<Node> ControlPlane::Endpoint() const {
  const Objects& objects = api_.objects();
  if (!objects.coordinator) return std::nullopt;
  std::optional<Node> now;
  std::optional<Node> before;
  for (const auto& machine : world_.machines()) {
    const MachineSpec& spec = machine->spec();
    if (spec.index != 0) continue;
    if (spec.attempt == objects.coordinator->attempt) {
      now = machine->node();
    } else {
      before = machine->node();
    }
  }
  return world_.now() < stale_until_ && before ? before : now;
}

bool ControlPlane::over() const {
  return finished_ != kNever && world_.now() > finished_ + kCleaning + kQuiet;
}

const core::Counters& ControlPlane::told(Node node) const {
  static const core::Counters kNothing;
  const auto found = told_.find(node);
  return found == told_.end() ? kNothing : found->second;
}

void ControlPlane::OnDesiredStateTaken(Node node, const core::DesiredState& desired) {
  taken_ = true;
  told_[node].Merge(desired.machine_failures);
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

ControlPlane::Answer ControlPlane::WriteStatus(uint64_t version, const core::JobStatus& status) {
  const bool stale = api_.objects().job_version != version;
  if (stale && !world_.Mutated("NoCompareAndSwap")) return {};
  Judge(api_.objects().status, status);
  return Wrote(Kind::kJob, [status](Objects& objects) { objects.status = status; });
}

void ControlPlane::Judge(const core::JobStatus& before, const core::JobStatus& after) {
  Invariants& invariants = world_.invariants();
  if (!AtLeast(after.counters, before.counters)) {
    invariants.Violate("CountersNeverFall", "status lowers a counter");
  }
  if (after.epoch < before.epoch) invariants.Violate("EpochsNeverFall", "status lowers its epoch");
  if (before.verdict && after.verdict != before.verdict) {
    invariants.Violate("VerdictIsFinal", "status changes its verdict");
  }
  for (int i = 0; i < after.attempts.size(); ++i) {
    const auto index = static_cast<uint32_t>(i);
    const uint32_t old = before.attempts.Of(i);
    const uint32_t next = after.attempts.Of(i);
    highest_[index] = std::max(highest_[index], next);
    if (old == 0 || next == old) continue;
    world_.Log("operator: machine ", i, " becomes attempt ", next);
    const Machine* current = nullptr;
    for (const auto& machine : world_.machines()) {
      const MachineSpec& spec = machine->spec();
      if (spec.index == index && spec.attempt == old) current = machine.get();
    }
    invariants.OnReplacement(index, current);
  }
  if (finished_ != kNever || !control::IsFinished(after)) return;
  world_.Log("operator: the job has ended: ", after.reason);
  finished_ = world_.now();
  if (!after.verdict || !after.verdict->generation.exists()) return;
  verdict_.emplace();
  verdict_->generation = after.verdict->generation;
  verdict_->exit_code = static_cast<uint32_t>(after.verdict->exit_code);
  invariants.OnCounted(*verdict_);
}

ControlPlane::Answer ControlPlane::Carry(const control::Action& action,
                                         const core::JobStatus& known) {
  const Objects& objects = api_.objects();
  if (const auto* pod = std::get_if<control::StartMachine>(&action)) return CreatePod(*pod, known);
  if (const auto* pod = std::get_if<control::StopMachine>(&action)) return Delete(*pod);
  if (std::holds_alternative<control::MakeKey>(action)) {
    Answer answer;
    answer.ok = true;
    return answer;
  }
  if (std::holds_alternative<control::MakeNames>(action)) {
    if (objects.has_names) return {.ok = true, .kind = Kind::kServices, .version = 0};
    return Wrote(Kind::kServices, [](Objects& all) { all.has_names = true; });
  }
  if (const auto* create = std::get_if<control::MakeCoordinatorAddress>(&action)) {
    if (objects.coordinator) return {.ok = true, .kind = Kind::kServices, .version = 0};
    return Wrote(Kind::kServices, [attempt = create->attempt](Objects& all) {
      all.coordinator = {"service", "10.96.0.7", attempt};
    });
  }
  if (const auto* point = std::get_if<control::MoveCoordinatorAddress>(&action)) {
    return Wrote(Kind::kServices,
                 [attempt = point->attempt](Objects& all) { all.coordinator->attempt = attempt; });
  }
  return {};
}

ControlPlane::Answer ControlPlane::CreatePod(const control::StartMachine& create,
                                             const core::JobStatus& known) {
  const std::string name =
      core::PodName("gpt", static_cast<int>(create.machine), create.attempt, kFirstEpoch);
  // Ours, from an earlier try.
  if (api_.objects().pods.contains(name)) return {.ok = true, .kind = Kind::kPods, .version = 0};
  control::MachineObservation pod;
  pod.name = name;
  pod.uid = name + "/" + std::to_string(world_.NextPid());
  pod.created = WallOf(world_.now());
  pod.machine = static_cast<int32_t>(create.machine);
  pod.attempt = create.attempt;
  if (kubelets_.HasRoom()) pod.stage = control::Stage::kPlaced;
  if (control::IsFinished(known)) {
    world_.invariants().Violate("VerdictIsFinal", name + " is made after the verdict");
  }
  if (create.attempt > api_.objects().status.epoch) {
    world_.invariants().Violate("RecordedBeforeMade", name + " is made before its epoch");
  }
  // One that was superseded meanwhile obtains nothing any more.
  const bool current = api_.objects().status.attempts.Of(pod.machine) == pod.attempt;
  if (!made_.insert({pod.machine, pod.attempt}).second && current) {
    world_.invariants().Violate("AttemptsAreUnique", name + " is made a second time");
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

ControlPlane::Answer ControlPlane::Delete(const control::StopMachine& deletion) {
  const auto found = api_.objects().pods.find(deletion.name);
  if (found == api_.objects().pods.end()) return {.gone = true};
  if (found->second.uid != deletion.uid) return {};
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
