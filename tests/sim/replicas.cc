// The operator's two processes: caches, the loop around Decide, the executor's rules, and the
// questions to the gang.
#include <algorithm>
#include <utility>

#include "core/gang/status/status_api.h"
#include "operator/policy/decide.h"
#include "operator/policy/facts/machines.h"
#include "tests/sim/control_plane.h"
#include "tests/sim/world.h"

namespace lockstep::sim {
namespace {

constexpr Duration kParkedAtMost = seconds(5);
constexpr Duration kLease = seconds(4);  // until somebody else leads, at the latest
constexpr Duration kCallTimeout = seconds(2);

}  // namespace

// One decision on its way.
struct ControlPlane::Run {
  control::Decision decision;
  uint64_t version = 0;  // of the job that it was made from
  core::JobStatus known;
  int open = 1;
  bool status_begun = false;
  bool complete = true;
};

void ControlPlane::Deliver(Replica& replica, Kind kind, uint64_t version,
                           const ApiServer::Change& change) {
  Random& random = world_.random();
  Duration late = random.Between(microseconds(100), milliseconds(5));
  if (random.Chance(5)) late = random.Between(milliseconds(5), milliseconds(300));
  if (random.Chance(1)) late = random.Between(milliseconds(300), seconds(8));
  const auto k = static_cast<size_t>(kind);
  Time& last = replica.delivered[k];
  last = std::max(last, world_.now() + late);
  world_.queue().At(last, [this, &replica, kind, k, version, change] {
    if (version <= replica.cache.seen[k]) return;  // it came with a list
    replica.cache.seen[k] = version;
    if (kind == Kind::kJob) {
      if (version <= replica.cache.job_version) return;  // its own write, known since the answer
      replica.cache.job_version = version;
    }
    change(replica.cache);
    Work(replica);
  });
}

void ControlPlane::Lead(Replica& replica) {
  if (replica.leads) return;
  world_.Log("operator ", replica.index, " leads");
  replica.leads = true;
  // Its pods' watch may be behind its jobs': what status says was made would look lost.
  if (!world_.Mutated("LeadsOnOldCaches")) replica.cache = api_.objects();
  Poll(replica, replica.life);
  Work(replica);
}

// Its process starts again at once and lists everything, as one that does not lead.
void ControlPlane::Crash(Replica& replica) {
  world_.Log("operator ", replica.index, " is gone");
  Replica fresh;
  fresh.index = replica.index;
  fresh.life = replica.life + 1;
  fresh.cache = api_.objects();
  fresh.delivered = replica.delivered;
  replica = std::move(fresh);
  world_.queue().After(kLease, [this, index = replica.index] {
    if (Leader() == nullptr) Lead(replicas_[1 - index]);
  });
}

ControlPlane::Replica* ControlPlane::Leader() {
  for (Replica& replica : replicas_) {
    if (replica.leads) return &replica;
  }
  return nullptr;
}

// ---- deciding ----

void ControlPlane::WakeAt(Replica& replica, Time at) {
  if (at == kNever || at >= replica.wake) return;
  replica.wake = at;
  world_.queue().At(at, [this, &replica, life = replica.life, at = at.count()] {
    if (replica.life != life || replica.wake.count() != at) return;
    replica.wake = kNever;
    Work(replica);
  });
}

// Its own writes have not come back.
bool ControlPlane::Waits(Replica& replica) {
  bool parked = false;
  for (size_t k = 0; k < kKinds; ++k) parked |= replica.cache.seen[k] < replica.parked[k];
  if (!parked || world_.Mutated("NoParking")) {
    replica.parked_until = kNever;
    return false;
  }
  if (replica.parked_until == kNever) replica.parked_until = world_.now() + kParkedAtMost;
  if (world_.now() >= replica.parked_until) {
    replica.cache = api_.objects();
    replica.parked_until = kNever;
    return false;
  }
  WakeAt(replica, replica.parked_until);
  return true;
}

// A namespace that has replaced nothing for a minute never waits for what others did.
int ControlPlane::ReplacementsAllowed(Replica& replica) {
  const Time now = world_.now();
  control::RateLimiter& limiter = replica.replacements;
  const std::string other = "greedy";
  if (now < greedy_until_) limiter.OnReplaced(other, limiter.Allowed(other, 0, now), now);
  const int allowed = limiter.Allowed(world_.Mutated("OneBucketForAll") ? other : "ours", 0, now);
  if (allowed == 0 && (replica.replaced == Time::min() || now > replica.replaced + minutes(1))) {
    world_.invariants().Violate("RoomForEverybody", "another namespace has used up all");
  }
  return allowed;
}

void ControlPlane::Work(Replica& replica) {
  if (!replica.leads || replica.busy || Waits(replica)) return;
  if (world_.now() < replica.not_before) return WakeAt(replica, replica.not_before);
  const Objects& seen = replica.cache;
  core::TrainingJob job;
  job.metadata.name = "gpt";
  job.metadata.uid = kJobUid;
  job.spec = seen.spec;
  if (world_.schedule().slices) job.metadata.annotations[control::kSliced] = "true";
  control::Snapshot snapshot;
  snapshot.job = &job;
  snapshot.uid = kJobUid;
  snapshot.generation = seen.generation;
  snapshot.status = seen.status;
  snapshot.agent = {.image = "agent", .plan_version = 1, .key_version = 1};
  for (const auto& [name, pod] : seen.pods) {
    (pod.spare < 0 ? snapshot.machines : snapshot.spares).push_back(pod);
  }
  if (seen.has_names) snapshot.names = control::Names{.uid = "names"};
  snapshot.coordinator_address = seen.coordinator;
  snapshot.slices = seen.slices;
  if (world_.schedule().queued) {
    snapshot.queue = {
        .queues = control::Queues::kThere, .name = Queue::kName, .prebuilt = "", .workload = {}};
    control::Sort(seen.workloads, &*snapshot.queue);
  }
  snapshot.coordinator = replica.coordinator;
  snapshot.member = replica.member;
  snapshot.desired_state_accepted = replica.desired && replica.desired_state_accepted;
  snapshot.notes = replica.notes;
  snapshot.memory = replica.memory;
  snapshot.replacements_allowed = ReplacementsAllowed(replica);
  snapshot.oldest_waiting = kubelets_.HasRoom();
  const control::Now now{.wall = WallOf(world_.now()), .boot = kBoot + world_.now()};
  control::Decision decision = control::Decide(snapshot, now);
  replica.memory = std::move(decision.memory);
  if (decision.replacements > 0) {
    replica.replacements.OnReplaced("ours", decision.replacements, world_.now());
    replica.replaced = world_.now();
  }
  if (decision.wake != kNever) WakeAt(replica, decision.wake - kBoot);
  if (decision.desired != replica.desired) {
    replica.desired = decision.desired;
    replica.desired_state_accepted = false;
    Say(replica);
  }
  CarryOut(replica, std::move(decision));
}

// ---- carrying out ----

void ControlPlane::CarryOut(Replica& replica, control::Decision decision) {
  if (!decision.intent && !decision.status && decision.actions.empty()) return;
  replica.busy = true;
  auto run = std::make_shared<Run>();
  run->decision = std::move(decision);
  run->version = replica.cache.job_version;
  run->known = replica.cache.status;
  if (run->decision.intent) {
    run->decision.actions.clear();
    run->decision.status = run->decision.intent;
  }
  const uint64_t life = replica.life;
  for (const control::Action& action : run->decision.actions) {
    if (replica.life != life) return;  // it died of the last one
    ++run->open;
    Call(
        replica, [this, action, known = run->known] { return Carry(action, known); },
        [this, &replica, run, action](const Answer& answer) {
          if (!answer.ok && !answer.gone) run->complete = false;
          if (answer.ok && std::holds_alternative<control::MakeKey>(action)) {
            replica.notes.key_made = true;
          }
          if (const auto* pod = std::get_if<control::StartMachine>(&action); pod && answer.ok) {
            replica.notes.made.insert({pod->machine, pod->attempt});
          }
          Close(replica, run);
        });
  }
  if (replica.life == life) Close(replica, run);
}

void ControlPlane::Close(Replica& replica, const std::shared_ptr<Run>& run) {
  if (--run->open > 0) return;
  if (!run->status_begun && run->decision.status) {
    run->status_begun = true;
    run->open = 1;
    return Call(
        replica,
        [this, version = run->version, status = *run->decision.status] {
          return WriteStatus(version, status);
        },
        [this, &replica, run](const Answer& answer) {
          if (!answer.ok) run->complete = false;
          // Known before the watch tells of it, unless that was faster.
          if (answer.ok && replica.cache.job_version < answer.version) {
            replica.cache.status = *run->decision.status;
            replica.cache.job_version = answer.version;
          }
          Close(replica, run);
        });
  }
  replica.busy = false;
  replica.failures = run->complete ? 0 : std::min(replica.failures + 1, 8);
  replica.not_before =
      run->complete ? Time::zero() : world_.now() + milliseconds(5) * (1 << replica.failures);
  Work(replica);
}

void ControlPlane::Call(Replica& replica, std::function<Answer()> at_server,
                        std::function<void(const Answer&)> on_answer) {
  if (replica.crash_in == 0 && world_.random().Chance(50)) return Crash(replica);
  Random& random = world_.random();
  Duration there = random.Between(microseconds(100), milliseconds(3));
  if (random.Chance(4)) there = random.Between(milliseconds(3), milliseconds(500));
  Duration back = random.Between(microseconds(100), milliseconds(3));
  const bool lost = random.Chance(1);  // 504 after it was done, or a connection that broke
  const uint64_t life = replica.life;
  world_.queue().After(there, [this, &replica, life, back, lost, at_server = std::move(at_server),
                               on_answer = std::move(on_answer)]() mutable {
    Answer answer = at_server();
    if (lost) answer = {};
    world_.queue().After(lost ? kCallTimeout : back,
                         [&replica, life, answer, on_answer = std::move(on_answer)] {
                           if (replica.life != life) return;
                           uint64_t& parked = replica.parked[static_cast<size_t>(answer.kind)];
                           if (answer.ok && answer.kind != Kind::kJob) {
                             parked = std::max(parked, answer.version);
                           }
                           on_answer(answer);
                         });
  });
  if (replica.crash_in == 0) return Crash(replica);
  if (replica.crash_in > 0) --replica.crash_in;
}

// ---- the gang ----

void ControlPlane::Poll(Replica& replica, uint64_t life) {
  if (replica.life != life || finished_ != kNever) return;
  control::Snapshot snapshot;
  snapshot.status = replica.cache.status;
  for (const auto& [name, pod] : replica.cache.pods) snapshot.machines.push_back(pod);
  // Machine 0, else the next that answers.
  for (const control::Machine& machine : control::Machines(snapshot)) {
    if (machine.life == control::Life::kRunning && Ask(replica, machine.seen->name)) break;
  }
  if (replica.desired && !replica.desired_state_accepted) Say(replica);
  world_.queue().After(world_.random().Between(milliseconds(60), milliseconds(200)),
                       [this, &replica, life] { Poll(replica, life); });
}

bool ControlPlane::Ask(Replica& replica, const std::string& pod) {
  const Machine* machine = kubelets_.MachineOf(pod);
  const std::optional<control::GangReport> asked = Operator::Ask(machine);
  if (!asked) return false;
  world_.queue().After(world_.network().Latency(machine->node(), kOperatorNode),
                       [this, &replica, life = replica.life, report = *asked] {
                         if (replica.life != life) return;
                         if (report.status.machine == 0) {
                           replica.coordinator = report;
                           replica.member.reset();
                         } else {
                           replica.member = report;
                         }
                         Work(replica);
                       });
  return true;
}

void ControlPlane::Say(Replica& replica) {
  if (!replica.desired) return;
  const auto attempt = replica.cache.status.attempts.Of(0);
  for (const auto& [name, pod] : replica.cache.pods) {
    if (pod.machine != 0 || pod.attempt != attempt) continue;
    Machine* zero = kubelets_.MachineOf(name);
    if (zero == nullptr || !zero->alive() || zero->stopped()) return;
    if (world_.network().Blocked(zero->node(), kOperatorNode)) return;
    world_.queue().After(world_.network().Latency(zero->node(), kOperatorNode),
                         [this, &replica, zero, life = replica.life, desired = *replica.desired] {
                           const bool taken = Operator::Say(*zero, desired);
                           if (!taken || replica.life != life || replica.desired != desired) return;
                           replica.desired_state_accepted = true;
                           Work(replica);
                         });
  }
}

}  // namespace lockstep::sim
