#include "tests/sim/local_control.h"

#include <algorithm>
#include <ranges>

#include "tests/sim/world.h"

namespace lockstep::sim {
namespace {

constexpr Duration kStepsAreTold = milliseconds(500);  // though nothing else changed

}  // namespace

void LocalControl::Begin() {
  const Shape& shape = world_.shape();
  core::TrainingJob job;
  job.metadata.name = "gpt";
  job.metadata.uid = kJobUid;
  job.spec = SpecOf();
  highest_.assign(shape.machines, 0);
  longest_l_ = shape.lost_after;
  job_.emplace(job, 0, std::vector<cli::MachinePlace>(shape.machines, {"127.0.0.1", ""}),
               control::Now{.wall = WallOf(world_.now()), .boot = kBoot + world_.now()});
  Work();
  Poll();
}

// ---- faults and the user ----

void LocalControl::Down(Duration duration) {
  world_.Log("lockstep run is stopped");
  stopped_until_ = std::max(stopped_until_, world_.now() + duration);
  world_.queue().At(stopped_until_, [this] { Work(); });
}

void LocalControl::Suspend() {
  world_.Log("user stops the run");
  job_->Suspend();
  Work();
}

// Its agent is killed.
void LocalControl::Drain(Machine& machine, Duration grace) { machine.Terminate(grace, false); }

void LocalControl::DeleteNode(Machine& machine, Duration /*most*/, bool /*lives_on*/) {
  machine.Kill(false);
}

// ---- what others see ----

// Whoever has the address.
std::optional<Node> LocalControl::Endpoint() const {
  const Machine* zero = Newest(0);
  return zero == nullptr ? std::nullopt : std::optional(zero->node());
}

void LocalControl::OnTerminated(const Machine& machine) {
  world_.queue().After(world_.random().Between(microseconds(50), milliseconds(2)),
                       [this, &machine] {
                         control::MachineEnd end = EndOf(machine);
                         end.out_of_memory = false;  // nobody tells a run
                         job_->OnEnd(machine.spec().index, std::move(end));
                         Work();
                       });
}

Machine* LocalControl::Newest(uint32_t index) const {
  for (const auto& machine : world_.machines() | std::views::reverse) {
    if (machine->spec().index == index) return machine.get();
  }
  return nullptr;
}

// ---- deciding ----

void LocalControl::WakeAt(Time at) {
  if (at == kNever || at >= wake_) return;
  wake_ = at;
  world_.queue().At(at, [this, at = at.count()] {
    if (wake_.count() != at) return;
    wake_ = kNever;
    Work();
  });
}

void LocalControl::Work() {
  if (world_.now() < stopped_until_ || job_->over()) return;
  while (true) {
    const core::JobStatus before = job_->status();
    const cli::LocalStep step = job_->Decide(kBoot + world_.now());
    Judge(before, job_->status());
    CarryOut(step);
    if (step.more) continue;
    const Machine* zero = Newest(0);
    const bool accepted = taken_ && zero != nullptr && taken_->first == zero->node() &&
                          job_->desired() == taken_->second;
    if (job_->OnAccepted(accepted)) continue;
    Tell();
    if (step.wake != kNever) WakeAt(step.wake - kBoot);
    return;
  }
}

void LocalControl::CarryOut(const cli::LocalStep& step) {
  for (const cli::LocalStep::Signal& signal : step.signals) {
    Machine* machine = Newest(signal.machine);
    world_.Log("lockstep run ", signal.kill ? "kills " : "asks to leave: ", machine->Name());
    if (signal.kill) {
      machine->Kill(false);
    } else {
      machine->Terminate(world_.shape().grace);
    }
  }
  for (const uint32_t index : step.start) Start(index);
}

void LocalControl::Start(uint32_t index) {
  const core::JobStatus& status = job_->status();
  MachineSpec spec;
  spec.index = index;
  spec.attempt = status.attempts.Of(static_cast<int>(index));
  spec.machine0_attempt = status.attempts.Of(0);
  spec.predecessor_dead = true;  // a new attempt follows an end
  for (int i = 0; i < status.attempts.size(); ++i) spec.attempts.push_back(status.attempts.Of(i));
  JudgeMade(index, spec.attempt, status, status);
  const Machine* last = Newest(index);
  if (last != nullptr && !last->terminated()) {
    world_.invariants().Violate("OnePlaceOneAgent", last->Name() + " has yet to end");
  }
  world_.AddMachine(spec).Boot();
}

// ---- the gang ----

void LocalControl::Poll() {
  if (job_->over()) return;
  if (world_.now() >= stopped_until_) {
    // Machine 0, else the next that answers.
    for (uint32_t index = 0; index < world_.shape().machines; ++index) {
      if (Ask(Newest(index))) break;
    }
    Tell();
  }
  world_.queue().After(world_.random().Between(milliseconds(2), milliseconds(60)),
                       [this] { Poll(); });
}

bool LocalControl::Ask(const Machine* machine) {
  const std::optional<control::GangReport> report = Operator::Ask(machine);
  if (!report) return false;
  // A question is answered once there is something new.
  const std::pair version{machine->node(), report->status.version};
  const bool coordinator = report->status.machine == 0;
  if (coordinator && version == heard_ && world_.now() < heard_at_ + kStepsAreTold) return true;
  heard_ = version;
  heard_at_ = world_.now();
  world_.queue().After(world_.network().Latency(machine->node(), kOperatorNode),
                       [this, report = *report] {
                         if (job_->OnStatus(report.status, report.at)) Work();
                       });
  return true;
}

void LocalControl::Tell() {
  Machine* zero = Newest(0);
  const std::optional<core::DesiredState>& desired = job_->desired();
  if (!desired || saying_ == desired || !Operator::Ask(zero)) return;
  if (taken_ && taken_->first == zero->node() && taken_->second == *desired) return;
  saying_ = desired;
  world_.queue().After(world_.network().Latency(zero->node(), kOperatorNode),
                       [this, zero, said = *desired] {
                         saying_.reset();
                         if (!Say(*zero, said)) return;
                         taken_.emplace(zero->node(), said);
                         Work();
                       });
}

}  // namespace lockstep::sim
