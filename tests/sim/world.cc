#include "tests/sim/world.h"

#include <algorithm>
#include <array>
#include <iomanip>
#include <utility>

#include "core/gang/protocol/rules.h"
#include "operator/policy/facts/rules.h"
#include "tests/sim/control_plane.h"
#include "tests/sim/local_control.h"

namespace lockstep::sim {

namespace {

constexpr uint64_t kNoiseStream = 0x70153;
constexpr uint64_t kUserStream = 0xc0de;
constexpr uint32_t kMostVersions = 4;
constexpr Duration kSampleInterval = milliseconds(50);
// The longest backoffs, an unkillable process, drains: none of it takes longer together.
constexpr Duration kPatience = seconds(300);
constexpr uint64_t kMostEvents = 3'000'000;

// Faults of processes leave the gang's machines and connections whole.
bool OfProcess(FaultKind kind) { return kind == FaultKind::kExit || kind == FaultKind::kSignal; }

std::unique_ptr<Operator> MakeOperator(World& world, bool cluster) {
  if (cluster) return std::make_unique<ControlPlane>(world);
  return std::make_unique<LocalControl>(world);
}

}  // namespace

World::World(const Schedule& schedule, std::ostream* trace)
    : schedule_(schedule),
      shape_(DrawShape(schedule.seed, schedule.faults)),
      trace_(trace),
      random_(schedule.seed ^ kNoiseStream),
      network_(*this),
      volume_(*this),
      training_(*this),
      operator_(MakeOperator(*this, schedule.cluster)),
      invariants_(*this),
      user_(schedule.seed ^ kUserStream),
      entries_(core::kCoordinatorPhaseCount, 0) {}

void World::WriteLine(const std::string& line) {
  *trace_ << std::setw(12) << std::fixed << std::setprecision(3)
          << static_cast<double>(now().count()) / 1e6 << "  " << line << "\n";
}

Machine& World::AddMachine(const MachineSpec& spec) {
  auto node = static_cast<Node>(machines_.size());
  Duration offset = random_.Between(seconds(1), hours(1));
  int64_t rate = 1'000'000;
  if (shape_.skew > 0) {
    // The extremes are where leases are shortest and longest.
    static constexpr int64_t kSteps[] = {-2, -1, 0, 1, 2};
    rate += kSteps[random_.Below(5)] * shape_.skew / 2;
  }
  machines_.push_back(std::make_unique<Machine>(*this, node, spec, Clock(offset, rate)));
  return *machines_.back();
}

uint32_t World::AttemptBehind(core::ConnectionId id, const Machine& from) {
  if (id == kLocalConnection) return from.spec().attempt;
  return machine(network_.ServerOf(id)).spec().attempt;
}

bool World::Over() const {
  return operator_->over() &&
         std::all_of(machines_.begin(), machines_.end(),
                     [](const auto& machine) { return machine->terminated(); });
}

void World::SyncCode() {
  queue_.After(user_.Between(milliseconds(20), milliseconds(1500)), [this] {
    if (operator_->over()) return;
    Machine* latest = nullptr;
    for (const auto& machine : machines_) {
      if (machine->spec().index == 0) latest = machine.get();
    }
    if (latest != nullptr && latest->alive() && latest->coordinator() != nullptr) {
      const bool lost = latest->coordinator()->code()->lost;
      if (lost || (versions_ < kMostVersions && user_.Chance(60))) {
        versions_ += lost ? 0 : 1;
        // The user may go back to an earlier version.
        const bool back = !lost && versions_ > 2 && user_.Chance(30);
        latest->TakeCode("code-" + std::to_string(back ? versions_ - 2 : versions_));
      }
    }
    SyncCode();
  });
}

Outcome World::Run() {
  operator_->Begin();
  if (shape_.synced) SyncCode();
  for (const Fault& fault : schedule_.faults) {
    if (!fault.phase) queue_.At(fault.at, [this, &fault] { Inject(fault); });
  }
  Time sampled{};
  while (!queue_.empty() && !invariants_.violation() && !Over()) {
    queue_.RunNext();
    if (now() >= sampled) {
      sampled = now() + kSampleInterval;
      invariants_.Sample();
    }
    if (now() > faults_end_ + kPatience) {
      invariants_.Violate("EveryJobEnds", "no verdict long after the last fault");
    } else if (queue_.count() > kMostEvents) {
      invariants_.Violate("EveryJobEnds", "something spins");
    }
  }
  Outcome outcome;
  outcome.violation = invariants_.violation();
  outcome.ended = now();
  outcome.events = queue_.count();
  outcome.faults = faults_;
  outcome.success = operator_->verdict() && operator_->verdict()->exit_code == 0;
  return outcome;
}

bool World::Tolerates(std::string_view invariant) const {
  static constexpr std::array<std::string_view, 6> kOfLeases = {
      "OneGenerationRuns", "LeasesEnd",     "AnnouncedUnderLease",
      "CommitsUnderLease", "CommitsInLine", "CommitsAreOfAll"};
  return schedule_.Off("Tolerant") && std::ranges::find(kOfLeases, invariant) != kOfLeases.end();
}

// ---- faults ----

void World::OnPhase(core::CoordinatorPhase phase) {
  uint32_t entry = ++entries_.at(static_cast<size_t>(phase));
  for (const Fault& fault : schedule_.faults) {
    if (fault.phase == phase && fault.entry == entry) {
      queue_.After(fault.at, [this, &fault] { Inject(fault); });
    }
  }
}

void World::Inject(const Fault& fault) {
  if (operator_->over()) return;
  const bool of_cluster = fault.kind == FaultKind::kNoRoom || fault.kind == FaultKind::kGoBack ||
                          fault.kind == FaultKind::kGreed || fault.kind == FaultKind::kPreempt ||
                          fault.kind == FaultKind::kSickNode;
  if (of_cluster && !schedule_.cluster) return;
  ++faults_;
  Log("FAULT ", fault.ToString());
  faults_end_ = std::max(faults_end_, now() + fault.duration + milliseconds(fault.arg));
  if (!OfProcess(fault.kind)) {
    invariants_.OnOtherFault(now() + fault.duration + milliseconds(fault.arg));
  }
  if (fault.kind == FaultKind::kStaleService || fault.kind == FaultKind::kOperatorPause ||
      fault.kind == FaultKind::kGoBack) {
    TouchAll();
  }
  switch (fault.kind) {
    case FaultKind::kSuspend:
      operator_->Suspend();
      return queue_.After(fault.duration, [this] { operator_->Resume(); });
    case FaultKind::kSetL:
      return operator_->SetL(milliseconds(fault.arg));
    case FaultKind::kOperatorDown:
      return operator_->Down(fault.duration);
    case FaultKind::kOperatorPause:
      return operator_->Pause(fault.duration);
    case FaultKind::kNoRoom:
      TouchAll();
      return operator_->NoRoom(fault.duration);
    case FaultKind::kEvictSpare:
    case FaultKind::kStuckSpare:
      return operator_->HitSpare(fault.kind == FaultKind::kStuckSpare);
    case FaultKind::kPreempt:
      return operator_->Preempt(fault.duration);
    case FaultKind::kGreed:
      return operator_->Greed(fault.duration);
    case FaultKind::kGoBack:
      return operator_->GoBack(fault.duration, milliseconds(fault.arg));
    case FaultKind::kSlowVolume:
      return volume_.Slow(milliseconds(fault.arg), fault.duration);
    case FaultKind::kLateRename:
      return training_.set_rename_late(fault.duration);
    case FaultKind::kStaleService:
      return operator_->StaleService(fault.duration);
    case FaultKind::kHang:
      return training_.Hang();
    default:
      break;
  }
  uint32_t index = fault.machine % shape_.machines;
  if (!OfProcess(fault.kind) && fault.kind != FaultKind::kCut) invariants_.OnMachineTouched(index);
  bool of_links = fault.kind == FaultKind::kPartition || fault.kind == FaultKind::kDelay;
  if (of_links && index == 0) TouchAll();
  if (of_links) invariants_.OnMachineTouched(0);
  Machine* latest = nullptr;
  for (const auto& machine : machines_) {
    if (machine->spec().index == index) latest = machine.get();
  }
  if (latest != nullptr) InjectInto(*latest, fault);
}

void World::TouchAll() {
  for (uint32_t i = 0; i < shape_.machines; ++i) invariants_.OnMachineTouched(i);
}

void World::InjectInto(Machine& machine, const Fault& fault) {
  Duration arg = milliseconds(fault.arg);
  switch (fault.kind) {
    case FaultKind::kExit:
      return machine.FailRank(fault.local_rank, static_cast<int>(fault.arg), 0);
    case FaultKind::kSignal:
      return machine.FailRank(fault.local_rank, -1, static_cast<int>(fault.arg));
    case FaultKind::kSpawnFailure:
      return machine.FailNextSpawn();
    case FaultKind::kKillAgent:
      return machine.Kill(false);
    case FaultKind::kOutOfMemory:
      return machine.Kill(true);
    case FaultKind::kStopAgent:
      return machine.Stop(fault.duration);
    case FaultKind::kKillGuard:
      return machine.KillGuard();
    case FaultKind::kStopGuard:
      return machine.StopGuard(fault.duration);
    case FaultKind::kFreeze:
      return machine.Freeze(fault.duration);
    case FaultKind::kJumpAhead:
      return machine.JumpAhead(arg);
    case FaultKind::kForceDelete:
      return operator_->DeleteNode(machine, arg, true);
    case FaultKind::kCut:
      return network_.Cut(machine.node());
    case FaultKind::kPartition:
      return network_.Isolate(machine.node(), fault.arg, fault.duration);
    case FaultKind::kDelay:
      return network_.Delay(machine.node(), arg, fault.duration);
    case FaultKind::kSlowDeath:
      return machine.SlowDeath(arg, fault.duration);
    case FaultKind::kSlowSpawn:
      return machine.SlowSpawn(arg, fault.duration);
    case FaultKind::kDrain:
      return operator_->Drain(machine, arg);
    case FaultKind::kUnalign:
      return machine.Unalign();
    case FaultKind::kSickNode:
      return operator_->SickNode(machine, fault.duration);
    case FaultKind::kTermAgent:
      return machine.Terminate(shape_.grace, false);
    case FaultKind::kDeleteNode:
      return operator_->DeleteNode(machine, arg, false);
    default:
      return;
  }
}

// ---- running, shrinking, mutants ----

Outcome RunSchedule(const Schedule& schedule, std::ostream* trace) {
  const auto off = [&](const char* name) { return schedule.Off(name); };
  SwitchRules<core::Rule>(off);
  SwitchRules<control::Rule>(off);
  World world(schedule, trace);
  return world.Run();
}

Schedule Shrink(const Schedule& schedule) {
  Outcome first = RunSchedule(schedule);
  if (!first.violation) return schedule;
  auto fails = [&](const Schedule& candidate) {
    Outcome outcome = RunSchedule(candidate);
    return outcome.violation && outcome.violation->invariant == first.violation->invariant;
  };
  Schedule best = schedule;
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (size_t i = 0; i < best.faults.size() && !smaller; ++i) {
      Schedule without = best;
      without.faults.erase(without.faults.begin() + static_cast<ptrdiff_t>(i));
      if (fails(without)) {
        best = std::move(without);
        smaller = true;
      }
    }
    for (size_t i = 0; i < best.faults.size() && !smaller; ++i) {
      Schedule shorter = best;
      shorter.faults[i].duration = shorter.faults[i].duration / 2;
      if (best.faults[i].duration >= milliseconds(2) && fails(shorter)) {
        best = std::move(shorter);
        smaller = true;
      }
    }
  }
  return best;
}

std::vector<std::string> Mutants() {
  std::vector<std::string> mutants = {
      "ReaderIgnoresLine", "NoGuard",         "PredecessorAssumedDead", "NoCompareAndSwap",
      "LeadsOnOldCaches",  "OneBucketForAll", "StoreIsPassedOver"};
  for (std::string name : NamesOf(core::Rule{})) {
    // Each of these two covers for the other.
    if (name == "RefuseLowerCoordinator") continue;
    if (name == "CoordinatorFencesItself") name += "+RefuseLowerCoordinator";
    if (name == "CodeBeforeRanks") continue;
    if (name == "CodeBeforeStart") name += "+CodeBeforeRanks";
    if (name == "StandstillEndsLease") name += "+ClockFreezes+Tolerant";
    mutants.push_back(std::move(name));
  }
  for (const char* name : NamesOf(control::Rule{})) mutants.emplace_back(name);
  return mutants;
}

std::vector<std::string> Limits() {
  return {"ClockFreezes", "ClockJumpsAhead", "GuardAndAgentStop", "GangBehindAPartition"};
}

}  // namespace lockstep::sim
