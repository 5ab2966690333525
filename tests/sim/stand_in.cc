#include "tests/sim/stand_in.h"

#include <algorithm>

#include "tests/sim/world.h"

namespace lockstep::sim {

namespace {

constexpr Duration kTick = milliseconds(200);
constexpr Duration kDeleteGrace = seconds(1);
// A leader's request to create a pod takes effect no later than this, or never.
constexpr Duration kCreationDeadline = seconds(8);

bool In(const std::vector<Node>& nodes, Node node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

}  // namespace

void StandIn::Begin() {
  uint32_t machines = world_.shape().machines;
  policy_.machine_lost_after = world_.shape().lost_after;
  policy_.max_restarts = world_.shape().max_restarts;
  policy_.restart_grace_period = world_.shape().restart_grace;
  policy_.max_machine_replacements = 20;
  longest_l_ = policy_.machine_lost_after;
  attempts_.assign(machines, 0);
  creating_.assign(machines, false);
  lost_.assign(machines, false);
  std::vector<uint32_t> all;
  for (uint32_t i = 0; i < machines; ++i) all.push_back(i);
  Create(all, ++epoch_);
  Tick();
}

// ---- faults and the user ----

void StandIn::Down(Duration duration) {
  world_.Log("operator is down");
  down_until_ = std::max(down_until_, world_.now() + duration);
}

void StandIn::Suspend(bool delete_pods) {
  if (over_) return;
  world_.Log("user suspends the job", delete_pods ? ", pods and all" : "");
  suspended_ = true;
  delete_pods_ = delete_pods;
  ++spec_generation_;
}

void StandIn::Resume() {
  if (!suspended_) return;
  world_.Log("user resumes the job");
  suspended_ = false;
  ++spec_generation_;
}

void StandIn::SetL(Duration length) {
  world_.Log("user sets machineLostAfter to ", length.count() / 1'000'000, " ms");
  policy_.machine_lost_after = length;
  longest_l_ = std::max(longest_l_, length);
  ++spec_generation_;
}

void StandIn::StaleService(Duration duration) { stale_until_ = world_.now() + duration; }

// ---- looking ----

bool StandIn::Sees(const Machine& machine) const {
  return !world_.network().Blocked(machine.node(), kOperatorNode);
}

// The kubelet says that the container has terminated.
bool StandIn::SeesEnd(const Machine& machine) const {
  return machine.terminated() && Sees(machine) &&
         world_.now() - machine.terminated_at() > milliseconds(30);
}

// It answers GET /status.
bool StandIn::Asks(const Machine& machine) const {
  return machine.alive() && !machine.stopped() && Sees(machine);
}

bool StandIn::EarlierEnded(uint32_t index) const {
  return std::all_of(intents_.begin(), intents_.end(), [&](const Intent& intent) {
    if (intent.index != index || intent.attempt >= attempts_[index]) return true;
    for (const auto& machine : world_.machines()) {
      const MachineSpec& spec = machine->spec();
      if (spec.index == index && spec.attempt == intent.attempt) return SeesEnd(*machine);
    }
    return world_.now() > intent.at + kCreationDeadline;
  });
}

Machine* StandIn::Current(uint32_t index) const {
  for (const auto& machine : world_.machines()) {
    if (machine->spec().index == index && machine->spec().attempt == attempts_[index]) {
      return machine.get();
    }
  }
  return nullptr;
}

std::optional<Node> StandIn::Endpoint() const {
  if (endpoints_.empty()) return std::nullopt;
  bool stale = world_.now() < stale_until_ && endpoints_.size() > 1;
  return endpoints_[endpoints_.size() - (stale ? 2 : 1)].second;
}

void StandIn::Tick() {
  if (world_.now() >= down_until_) {
    Observe();
    world_.queue().After(world_.random().Between(milliseconds(1), milliseconds(60)), [this] {
      if (world_.now() >= down_until_) Act();
    });
  }
  world_.queue().After(kTick, [this] { Tick(); });
}

// Evidence, as it stood at this moment; it may be old by the time of the deed.
void StandIn::Observe() {
  Duration limit = policy_.machine_lost_after;
  for (uint32_t index = 0; index < attempts_.size(); ++index) {
    const Machine* current = Current(index);
    if (current == nullptr) {
      lost_[index] = !creating_[index];
      continue;
    }
    lost_[index] = SeesEnd(*current);
  }
  for (const auto& machine : world_.machines()) {
    if (!Asks(*machine) || Current(machine->spec().index) != machine.get()) continue;
    counters_.Merge(machine->member().counters());
    if (machine->member().machine0_attempt() == attempts_[0] &&
        machine->member().coordinator_silence(machine->Local()) >= limit) {
      lost_[0] = true;
    }
  }
  // Who is replaced should be no witness against others: of a gang that is split one side stays.
  bool trusted = !lost_[0] || world_.shape().trusting_operator;
  for (const auto& machine : world_.machines()) {
    if (!Asks(*machine) || Current(machine->spec().index) != machine.get()) continue;
    if (machine->coordinator() == nullptr || !trusted) continue;
    counters_.Merge(machine->coordinator()->counters());
    for (uint32_t index = 0; index < attempts_.size(); ++index) {
      core::MachineView view = machine->coordinator()->machine(machine->Local(), index);
      if (view.attempt != attempts_[index]) continue;
      if (index != 0 && view.silent_for >= limit) lost_[index] = true;
      if (view.replace) lost_[index] = true;
    }
  }
}

// ---- acting ----

void StandIn::Act() {
  Judge();
  Delete();
  if (over_) return;
  Replace();
  Tell();
}

void StandIn::Judge() {
  for (const auto& machine : world_.machines()) {
    if (over_) return;
    if (!machine->verdict() || !SeesEnd(*machine)) continue;
    const core::Verdict& verdict = *machine->verdict();
    bool counts = machine->spec().attempt == attempts_[machine->spec().index] &&
                  attempts_[0] <= verdict.generation.attempt;
    if (!counts && !world_.Mutated("AnyVerdictCounts")) continue;
    world_.Log("operator: verdict of ", verdict.generation, ", exit code ", verdict.exit_code);
    verdict_ = verdict;
    over_ = true;
    world_.invariants().OnCounted(verdict);
  }
}

void StandIn::Replace() {
  bool recreate = suspended_ && delete_pods_;
  if (recreate) return;
  std::vector<uint32_t> indices;
  for (uint32_t index = 0; index < attempts_.size(); ++index) {
    if (lost_[index] && !creating_[index]) indices.push_back(index);
  }
  if (indices.empty()) return;
  for (uint32_t index : indices) {
    const Machine* current = Current(index);
    world_.invariants().OnReplacement(index, current);
    if (current == nullptr || In(charged_, current->node())) continue;
    charged_.push_back(current->node());
    bool by_request =
        current->terminated() && (current->exit_code() == 143 || current->exit_code() == 0);
    if (by_request) continue;
    if (current->out_of_memory()) {
      ++counters_.out_of_memory;
    } else {
      ++counters_.replacements;
    }
  }
  if (static_cast<int>(counters_.replacements) > policy_.max_machine_replacements) {
    world_.Log("operator: too many machines failed");
    over_ = true;
    return;
  }
  ++epoch_;
  Create(indices, epoch_);
}

void StandIn::Create(const std::vector<uint32_t>& indices, uint32_t epoch) {
  for (uint32_t index : indices) {
    attempts_[index] = epoch;
    intents_.push_back({index, epoch, world_.now()});
    lost_[index] = false;
  }
  Duration late =
      std::min<Duration>(std::exchange(pause_, Duration::zero()), kCreationDeadline - seconds(1));
  bool paused = late > Duration::zero();
  if (paused) world_.Log("operator is paused; another leader takes over");
  for (uint32_t index : indices) {
    world_.Log("operator: machine ", index, " becomes attempt ", epoch);
    creating_[index] = !paused;  // the next leader finds no pod
    bool predecessors_dead = EarlierEnded(index) || world_.Mutated("PredecessorAssumedDead");
    Duration takes =
        late + (epoch == 1 ? world_.random().Between(milliseconds(1), milliseconds(20))
                           : world_.random().Between(milliseconds(20), milliseconds(400)));
    MachineSpec spec{index, epoch, attempts_[0], predecessors_dead, attempts_};
    world_.queue().After(takes, [this, spec] { Add(spec); });
  }
}

void StandIn::Add(const MachineSpec& spec) {
  if (attempts_[spec.index] == spec.attempt) creating_[spec.index] = false;
  Machine& machine = world_.AddMachine(spec);
  if (spec.index == 0 && spec.attempt == attempts_[0]) {
    endpoints_.emplace_back(world_.now(), machine.node());
  }
  machine.Boot();
}

// What was replaced, and everything once there is a verdict.
void StandIn::Delete() {
  bool all =
      over_ || (suspended_ && delete_pods_ && [this] {
        const Machine* zero = Current(0);
        return zero == nullptr || !zero->alive() ||
               (Asks(*zero) && zero->coordinator()->phase() == core::CoordinatorPhase::kHeld);
      }());
  for (const auto& machine : world_.machines()) {
    if (all || machine->spec().attempt < attempts_[machine->spec().index]) DeletePod(*machine);
  }
}

void StandIn::DeletePod(Machine& machine) {
  if (machine.terminated() || !Sees(machine) || In(deleted_, machine.node())) return;
  deleted_.push_back(machine.node());
  machine.Terminate(kDeleteGrace);
  world_.queue().After(kDeleteGrace, [&machine] { machine.Kill(false); });
}

// PUT /gang.
void StandIn::Tell() {
  Machine* zero = Current(0);
  if (zero == nullptr || !Asks(*zero)) return;
  core::DesiredState desired;
  desired.job_uid = kJobUid;
  desired.epoch = epoch_;
  desired.observed_generation = spec_generation_;
  desired.policy = policy_;
  desired.machine_failures = counters_;
  if (suspended_)
    desired.stop =
        core::DesiredState::DesiredStop{core::StopReason::kSuspended, world_.shape().grace};
  for (const auto& machine : world_.machines()) {
    if (!SeesEnd(*machine)) continue;
    desired.terminated.push_back(
        {machine->spec().index, machine->spec().attempt,
         machine->out_of_memory() ? core::Cause::kOutOfMemory : core::Cause::kMachineLost});
    if (machine->out_of_memory() && !In(charged_, machine->node())) {
      charged_.push_back(machine->node());
      desired.machine_failures.out_of_memory = ++counters_.out_of_memory;
    }
  }
  for (uint32_t index = 0; index < attempts_.size(); ++index) {
    if (EarlierEnded(index)) desired.fenced.push_back({index, attempts_[index]});
  }
  world_.queue().After(world_.network().Latency(zero->node(), kOperatorNode),
                       [zero, desired] { zero->OnDesiredState(desired); });
}

void StandIn::OnDesiredStateTaken(Node node, const core::DesiredState& desired) {
  for (Told& told : told_) {
    if (told.node == node) return told.counters.Merge(desired.machine_failures);
  }
  told_.push_back({node, desired.machine_failures});
}

// A new coordinator is born with the longest L of the job's life, so that it waits for what an
// older one may have granted; PUT /gang lowers it.
core::FailurePolicy StandIn::policy_at_birth() const {
  core::FailurePolicy policy = policy_;
  policy.machine_lost_after = longest_l_;
  return policy;
}

const core::Counters& StandIn::told(Node node) const {
  static const core::Counters kNothing;
  for (const Told& told : told_) {
    if (told.node == node) return told.counters;
  }
  return kNothing;
}

// It watches no pods: the machine is switched off.
void StandIn::DeleteNode(Machine& machine, Duration) { machine.Kill(false); }

}  // namespace lockstep::sim
