#include "tests/sim/invariants.h"

#include <algorithm>

#include "core/gang/protocol/lease.h"
#include "tests/sim/world.h"

namespace lockstep::sim {

namespace {

// SIGKILL, the guard's wake-up and the agent's own take some milliseconds.
constexpr Duration kKillMargin = milliseconds(20);
// After faults, until connections stand again and what is on its way has come; and what copies of
// one checkpoint take behind those of another.
constexpr Duration kCalm = seconds(2);
constexpr Duration kCopyTakes = seconds(1);

}  // namespace

bool AtLeast(const core::Counters& a, const core::Counters& b) {
  core::Counters merged = a;
  merged.Merge(b);
  return merged == a;
}

void Invariants::Violate(const char* invariant, std::string detail) {
  if (violation_ || world_.Tolerates(invariant)) return;
  world_.Log("VIOLATION ", invariant, ": ", detail);
  violation_ = Violation{invariant, std::move(detail)};
}

Invariants::Run* Invariants::Find(core::Generation generation) {
  auto it = runs_.find(generation);
  return it == runs_.end() ? nullptr : &it->second;
}

// ---- checkpoints ----

void Invariants::OnListed(core::Generation generation) {
  for (auto& [older, run] : runs_) {
    if (older < generation && run.step_before_successor < 0) {
      run.step_before_successor = run.newest_step;
    }
  }
}

// Of two of one generation the greater number is further: what is written from memory may come
// after a later commit.
void Invariants::OnComplete(core::CheckpointId commit, const std::string& path, int64_t step) {
  Run* run = Find(commit.generation);
  if (run == nullptr) return;
  run->checkpoints.push_back(path);
  if (commit.number < run->newest_number) return;
  run->newest_number = commit.number;
  run->newest_step = step;
}

void Invariants::OnWritten(core::CheckpointId to, core::CheckpointId id,
                           const std::set<uint32_t>& parts) {
  const std::string what = InMemory(id) + " is written as commit " + std::to_string(to.number) +
                           " of " + to.generation.ToString();
  if (parts.size() != world_.shape().machines) {
    Violate("WrittenIsWhole",
            what + ", yet only " + std::to_string(parts.size()) + " machines' parts are there");
  }
  if (id > to) Violate("WrittenIsWhole", what + ", which is older");
}

void Invariants::OnMemoryCommit(core::CheckpointId id) {
  if (Run* run = Find(id.generation)) run->commits.insert(id);
}

// What a generation begins from in memory was committed in its line, and is ahead of the folder.
void Invariants::CheckMemory(Run& run, const Run* before) {
  const core::CheckpointId folder = world_.volume().OriginOf(run.resume);
  const core::CheckpointId memory = world_.volume().OriginOf(run.memory);
  const bool in_line = before != nullptr && before->commits.contains(memory);
  if (world_.shape().object_store && !run.resume.empty() && !run.memory.exists()) {
    Violate("StoredIsFetched", "generation " + run.generation.ToString() +
                                   " begins from nothing, yet the object store has " + run.resume);
  }
  if (run.memory.exists() && !in_line) {
    Violate("MemoryInLine", "generation " + run.generation.ToString() + " begins from " +
                                InMemory(run.memory) + ", which is not of its line");
  }
  if (run.memory.exists() && memory < folder) {
    Violate("NewestOfMemoryAndFolder", "generation " + run.generation.ToString() + " begins from " +
                                           InMemory(run.memory) + ", yet the folder has " +
                                           run.resume);
  }
  if (before == nullptr) return;
  const core::CheckpointId from = run.memory.exists() ? memory : folder;
  for (const core::CheckpointId& id : before->commits) {
    if (id <= from) run.commits.insert(id);
  }
}

// A generation goes on from what the last one that ran has committed, or had resumed from itself.
void Invariants::CheckLine(Run& run) {
  const Run* before = nullptr;
  for (const auto& [generation, other] : runs_) {
    if (other.executed > (before == nullptr ? 0 : before->executed)) before = &other;
  }
  CheckMemory(run, before);
  if (before == nullptr) {
    if (!run.resume.empty()) Violate("ResumesInLine", "the first generation resumes " + run.resume);
    return;
  }
  // Also what one that never ran has written of it from memory.
  bool in_line = run.resume == before->resume ||
                 before->commits.contains(world_.volume().OriginOf(run.resume)) ||
                 std::find(before->checkpoints.begin(), before->checkpoints.end(), run.resume) !=
                     before->checkpoints.end();
  if (!in_line) {
    Violate("ResumesInLine", "generation " + run.generation.ToString() + " resumes '" + run.resume +
                                 "', which is not of the line of " + before->generation.ToString());
  } else if (world_.volume().StepOf(run.resume) < before->step_before_successor) {
    Violate("CommitsAreKept", "generation " + run.generation.ToString() + " resumes '" +
                                  run.resume + "' and loses a complete checkpoint of " +
                                  before->generation.ToString());
  }
}

// ---- generations ----

void Invariants::OnStart(const Machine& zero, Node member, const core::Start& start) {
  Run& run = runs_[start.generation];
  if (!run.generation.exists()) {
    run.generation = start.generation;
    run.coordinator = zero.node();
    run.started = world_.now();
    run.resume = start.resume;
    run.memory = start.memory;
    core::Counters floor = world_.op().told(zero.node());
    for (const auto& machine : world_.machines()) {
      if (machine->alive() && machine->member().welcomed() &&
          machine->member().machine0_attempt() == zero.spec().attempt) {
        floor.Merge(machine->member().counters());
      }
    }
    if (!AtLeast(start.counters, floor)) {
      Violate("CountersNeverFall",
              "START " + start.generation.ToString() +
                  " carries counters below those of a machine or the operator");
    }
  }
  if (world_.shape().elastic && !world_.op().Decided(start.members)) {
    Violate("MembersAreDecided", zero.Name() + " announces " + start.generation.ToString() +
                                     " to machines " + start.members.ToString());
  }
  if (run.coordinator != zero.node()) {
    Violate("NumbersAreUnique",
            zero.Name() + " announces " + start.generation.ToString() + " again");
  }
  if (world_.now() > LastPong(member, zero.spec().attempt) + LeaseBound()) {
    Violate("AnnouncedUnderLease", zero.Name() + " announces " + start.generation.ToString() +
                                       ", yet " + world_.machine(member).Name() +
                                       " has not answered it for the length of a lease");
  }
  const auto measured = measured_.find({zero.node(), member});
  const bool known = measured != measured_.end() && world_.now() >= measured->second;
  if (world_.shape().preflight && !known) {
    Violate("MeasuredBeforeStart", zero.Name() + " announces " + start.generation.ToString() +
                                       " to " + world_.machine(member).Name() +
                                       ", which was not measured");
  }
  run.members.push_back(member);
}

void Invariants::OnAskedToMeasure(Node zero, Node member) {
  measured_[{zero, member}] = world_.now() + core::kMeasureAlonePatience * 95 / 100;
}

void Invariants::OnMeasured(Node zero, Node member) { measured_[{zero, member}] = world_.now(); }

void Invariants::OnExec(const Machine& machine, const Process& process, const core::Start& start) {
  for (const auto& other : world_.machines()) {
    if (other->frozen()) continue;
    for (const Process& old : other->processes()) {
      if (!other->Counts(old) || old.pid == process.pid) continue;
      if (old.rank == process.rank && old.generation == process.generation) {
        Violate("ARankIsOneProcess", machine.Name() + " starts rank " + std::to_string(old.rank) +
                                         " again while its last process is alive");
      }
      if (old.generation == process.generation || old.left) continue;
      Violate("OneGenerationRuns", machine.Name() + " starts rank " + std::to_string(process.rank) +
                                       " of " + process.generation.ToString() + " while rank " +
                                       std::to_string(old.rank) + " of " +
                                       old.generation.ToString() + " is alive on " + other->Name());
    }
  }
  if (world_.op().verdict()) {
    Violate("VerdictIsFinal", machine.Name() + " starts a rank of " +
                                  process.generation.ToString() + " after the verdict was counted");
  }
  Run* run = Find(process.generation);
  if (start.memory.exists()) {
    const auto& parts = machine.member().parts();
    const bool has = std::any_of(parts.begin(), parts.end(), [&](const core::MemoryPart& part) {
      return part.id == start.memory && part.machine == machine.spec().index;
    });
    if (!has) {
      Violate("MemoryIsWhole", machine.Name() + " begins from " + InMemory(start.memory) +
                                   " and does not hold its part");
    }
  }
  if (run != nullptr && !run->code) run->code = process.code;
  if (run != nullptr && process.code != *run->code) {
    Violate("OneCode", machine.Name() + " runs code " + process.code + " in " +
                           process.generation.ToString() + ", which runs " + *run->code);
  }
  if (process.code != start.code) {
    Violate("StartNamesCode", machine.Name() + " runs code " + process.code + " where START of " +
                                  process.generation.ToString() + " names " + start.code);
  }
  if (run == nullptr || run->executed > 0) return;
  if (start.resume != run->resume || start.memory != run->memory) {
    Violate("ResumesInLine", "two STARTs name different checkpoints");
  }
  CheckLine(*run);
  run->executed = ++executed_;
}

void Invariants::OnCommitGranted(const Machine& zero, const std::string& memory_name) {
  committed_at_ = world_.now();
  core::Generation generation = zero.coordinator()->generation();
  if (world_.volume().Highest() > generation) {
    Violate("CommitsInLine", "a commit of " + generation.ToString() + " is granted after " +
                                 world_.volume().Highest().ToString() + " was prepared");
  }
  const Run* run = Find(generation);
  for (Node node : run->members) {
    if (world_.now() <= LastPong(node, zero.spec().attempt) + LeaseBound()) continue;
    Violate("CommitsUnderLease", "a commit of " + generation.ToString() + " is granted, yet " +
                                     world_.machine(node).Name() +
                                     " has not answered for the length of a lease");
  }
  // While a requested stop runs, ranks may save and leave one after another.
  if (zero.coordinator()->phase() == core::CoordinatorPhase::kStopping) return;
  Time requested = world_.training().CommitRequested(generation, memory_name);
  for (Node node : run->members) {
    const Machine& machine = world_.machine(node);
    if (machine.left(generation) >= requested && machine.terminated_at() >= requested) continue;
    Violate("CommitsAreOfAll", "a commit of " + generation.ToString() + " is granted, yet " +
                                   machine.Name() + " had left it before it was asked for");
  }
}

void Invariants::OnFetchFailed(const Machine& machine, core::CheckpointId id) {
  Run* run = Find(machine.member().generation());
  if (run != nullptr) run->not_got = std::max(run->not_got, id);
}

// While nothing goes wrong, each machine has a copy of what the one before it committed.
void Invariants::CheckCopies(const Machine& zero) {
  const core::Coordinator* coordinator = zero.coordinator();
  if (!zero.alive() || coordinator == nullptr || !coordinator->config().memory_copies ||
      coordinator->phase() != core::CoordinatorPhase::kRunning) {
    return;
  }
  Run* run = Find(coordinator->generation());
  if (run == nullptr || world_.now() < world_.faults_end() + kCalm) return;
  core::Holdings held(world_.shape().machines);
  for (Node node : run->members) {
    const Machine& machine = world_.machine(node);
    if (!machine.alive()) return;  // copies come again with its successor, once there is one
    held[machine.spec().index] = machine.member().parts();
  }
  const core::CheckpointId newest = core::NewestInMemory(held, {}, {});
  if (newest.exists() && (run->whole.empty() || newest > run->whole.back().second)) {
    run->whole.emplace_back(world_.now(), newest);
  }
  core::CheckpointId due;
  for (const auto& [since, id] : run->whole) {
    if (world_.now() >= since + kCopyTakes) due = id;
  }
  if (!due.exists() || run->not_got >= due) return;
  for (uint32_t machine = 0; machine < held.size(); ++machine) {
    const auto& parts = held[(machine + 1) % held.size()];
    const bool copied = std::ranges::any_of(parts, [&](const core::MemoryPart& part) {
      return part.machine == machine && part.id >= due;
    });
    if (copied) continue;
    Violate("CopiesComeAgain", "no machine has a copy of machine " + std::to_string(machine) +
                                   "'s part of " + InMemory(due));
  }
}

// ---- the end ----

// What was granted in memory, and went on, is on the volume then, where the next one finds it; or
// it is said that it is not. A machine 0 that has begun nothing does not know of it.
void Invariants::OnGangEnds(const Machine& zero) {
  const core::Coordinator& coordinator = *zero.coordinator();
  const bool held = coordinator.phase() == core::CoordinatorPhase::kHeld;
  for (const auto& machine : world_.machines()) {
    const core::Member& member = machine->member();
    const bool here =
        machine->alive() && member.welcomed() && member.machine0_attempt() == zero.spec().attempt &&
        coordinator.machine(zero.Local(), machine->spec().index).attempt == machine->spec().attempt;
    const bool waits = std::ranges::any_of(machine->processes(), [](const Process& process) {
      return process.left && process.killed == kNever;
    });
    if (held && here && waits && member.phase() == core::MemberPhase::kStopped) {
      Violate("HeldKeepsNone", "the gang is held, and processes live on " + machine->Name());
    }
  }
  if (!world_.shape().persists || !coordinator.unwritten().empty()) return;
  if (coordinator.history().empty()) return;
  const Run* run = Find(coordinator.history().back().generation);
  if (run == nullptr || run->executed != executed_ || run->coordinator != zero.node()) return;
  if (run->commits.empty() || world_.volume().Highest().attempt > zero.spec().attempt) return;
  const core::CheckpointId granted = *run->commits.rbegin();
  const std::string newest = world_.volume().Newest();
  if (world_.volume().OriginOf(newest) >= granted) return;
  Violate("GrantedIsWritten", zero.Name() + " ends the gang, yet " + InMemory(granted) +
                                  " was granted and the folder's newest is '" + newest + "'");
}

void Invariants::OnVerdict(const core::Verdict& verdict) {
  if (verdict.exit_code == 0 && !world_.training().Succeeded(verdict.generation)) {
    Violate("SuccessIsOfAll", "generation " + verdict.generation.ToString() +
                                  " is called a success, yet not every rank that decides exited 0");
  }
}

// An API server that went back knows nothing of the generations since, so a verdict that was void
// for them counts again.
void Invariants::OnCounted(const core::Verdict& verdict) {
  for (const auto& [generation, run] : runs_) {
    const bool known = run.started > world_.op().went_back_at();
    if (run.executed > 0 && generation > verdict.generation && known) {
      Violate("VerdictIsFinal", "the verdict of " + verdict.generation.ToString() +
                                    " is counted, yet " + generation.ToString() + " has run");
    }
  }
}

void Invariants::OnAgentExit(const Machine& machine) {
  int code = machine.exit_code();
  bool replaced = world_.op().attempt(machine.spec().index) > machine.spec().attempt;
  bool judged = code == 0 || code == 70 || code == 77 || code == 78;
  bool good = judged ? machine.verdict().has_value() &&
                           machine.verdict()->exit_code == static_cast<uint32_t>(code)
              : code == 143 ? machine.asked_to_leave()
              : code == 75  ? replaced || world_.op().went_back()
                            : false;
  if (!good) {
    Violate("AgentsLeaveForAReason", machine.Name() + " exits with " + std::to_string(code));
  }
}

void Invariants::OnCoordinator(const Machine& zero) {
  const core::Coordinator& coordinator = *zero.coordinator();
  core::Counters& seen = counters_[zero.node()];
  if (!(seen == coordinator.counters())) {
    if (!AtLeast(coordinator.counters(), seen)) {
      Violate("CountersNeverFall", zero.Name() + " lowers a counter");
    }
    seen = coordinator.counters();
    // A hang's end is charged as well, whatever it came from; and where clocks drift by 5 %, nobody
    // can tell what came first.
    bool certain = world_.shape().hang_timeout == Duration::zero() && world_.shape().skew == 0;
    if (seen.process_failures > application_faults_ && certain) {
      Violate("OnlyFailuresAreCharged",
              std::to_string(seen.process_failures) + " process failures are charged, yet only " +
                  std::to_string(application_faults_) +
                  " processes failed: " + coordinator.last_failure().message);
    }
  }
  CheckCharges(zero);
  size_t& judged = judged_[zero.node()];
  const auto& history = coordinator.history();
  while (judged < history.size() && history[judged].ended != kNever) {
    CheckAlone(coordinator, history[judged]);
    CheckRootCause(history[judged++]);
  }
}

// What was started again alone in a generation is charged once that has gone on for so long that
// every machine has answered since, or the lease would be out.
void Invariants::CheckCharges(const Machine& zero) {
  const core::Coordinator& coordinator = *zero.coordinator();
  const core::Counters& seen = coordinator.counters();
  Charges& charges = charges_[zero.node()];
  if (charges.generation != coordinator.generation()) {
    charges = {coordinator.generation(), seen, seen.alone, world_.now()};
  }
  if (seen.alone != charges.alone) {
    charges.alone = seen.alone;
    charges.since = world_.now();
  }
  const Duration known = core::kSettle * 2 + world_.op().longest_l() * 2;
  const bool runs = coordinator.phase() == core::CoordinatorPhase::kRunning;
  if (!runs || world_.now() < charges.since + known) return;
  const uint32_t alone = seen.alone - charges.at_first.alone;
  const uint32_t charged = seen.process_failures - charges.at_first.process_failures;
  if (alone <= charged) return;
  Violate("AloneIsCharged", std::to_string(alone) + " ranks were started again alone in " +
                                charges.generation.ToString() + ", and " + std::to_string(charged) +
                                " failures are charged");
}

// A pod is replaced only if something happened to its machine, or to its link to machine 0.
void Invariants::OnReplacement(uint32_t index, const Machine* current) {
  if (current == nullptr || current->terminated() || touched_.contains(index)) return;
  Violate("SurvivorsKeepTheirPods", current->Name() + " is replaced, yet nothing happened to it");
}

// ---- root causes ----

void Invariants::OnProcessFault(core::Generation generation, uint32_t rank, int exit_code,
                                int signal) {
  OnApplicationFault();
  bool alone = world_.now() > others_until_;
  for (ProcessFault& other : faults_) {
    if (other.generation == generation) alone = other.alone = false;
  }
  const Run* run = Find(generation);
  // A rank that dies while others are not yet exec'ed is taken for itself as well.
  if (run == nullptr || IsAlone(world_.shape(), rank)) alone = false;
  faults_.push_back({generation, rank, exit_code, signal, world_.now(), alone});
}

// Faults of machines and networks, and requests, leave their traces for a while.
void Invariants::OnOtherFault(Time until) {
  others_until_ = std::max(others_until_, until + world_.op().longest_l() * 3);
  for (ProcessFault& fault : faults_) {
    if (world_.now() < fault.at + world_.op().longest_l() * 2) fault.alone = false;
  }
}

// What is started again alone ends a generation only when the budget is used up, or where the
// policy says something else of it than that it is started again.
void Invariants::CheckAlone(const core::Coordinator& coordinator,
                            const core::GenerationRecord& record) {
  const core::Failure& failure = record.failure;
  const bool ran =
      failure.cause == core::Cause::kProcessExit || failure.cause == core::Cause::kProcessSignal;
  if (!ran || !IsAlone(world_.shape(), static_cast<uint32_t>(failure.rank))) return;
  core::FailureContext context;
  context.failure = failure;
  context.first_step_seen = true;
  const core::FailurePolicy& policy = coordinator.config().policy;
  const bool restarts =
      core::DecideFailure(policy, context).action == core::FailureAction::kRestart;
  if (!restarts || coordinator.counters().application_used() > policy.max_restarts) return;
  Violate("OthersRunOn", "generation " + record.generation.ToString() +
                             " ends, and it is said: " + failure.message);
}

void Invariants::CheckRootCause(const core::GenerationRecord& record) {
  for (const ProcessFault& fault : faults_) {
    if (fault.generation != record.generation || !fault.alone || world_.now() < fault.at) continue;
    const core::Failure& failure = record.failure;
    bool named = failure.rank == static_cast<int>(fault.rank) &&
                 failure.exit_code == fault.exit_code && failure.signal == fault.signal;
    // With 75 a process says that it is not the cause.
    if (named || fault.exit_code == 75) continue;
    Violate("RootCauseIsNamed", "rank " + std::to_string(fault.rank) + " ended generation " +
                                    record.generation.ToString() +
                                    ", yet it is said: " + failure.message);
  }
}

// ---- leases ----

// By the slowest clock.
Duration Invariants::LeaseBound() const {
  return core::LeaseShare(world_.op().longest_l()) * 100 / 95;
}

// Of that machine: an attempt that takes another's place answers for it.
Time Invariants::LastPong(Node node, uint32_t machine0_attempt) const {
  Time last = Time::min();
  for (const auto& machine : world_.machines()) {
    if (machine->spec().index != world_.machine(node).spec().index) continue;
    last = std::max(last, machine->last_pong(machine0_attempt));
  }
  return last;
}

// A machine that stood still with its clock finds out within a tenth of L.
void Invariants::CheckWaking(const Machine& machine) {
  const Machine::Waking& woke = machine.woke();
  const Duration tenth = world_.op().longest_l() / 10;
  const Duration bound = tenth * 100 / 95 + kKillMargin;
  if (woke.at == kNever || woke.stood_still < tenth || world_.now() < woke.at + bound) return;
  for (const Process& process : machine.processes()) {
    if (process.killed != kNever || process.pid > woke.next_pid) continue;
    Violate("StandstillEndsLease", "rank " + std::to_string(process.rank) + " is alive on " +
                                       machine.Name() + ", which stood still and woke " +
                                       std::to_string((world_.now() - woke.at).count() / 1000000) +
                                       " ms ago");
  }
}

void Invariants::Sample() {
  Duration bound = LeaseBound() + kKillMargin;
  for (const auto& machine : world_.machines()) {
    if (machine->frozen()) continue;
    CheckWaking(*machine);
    CheckCopies(*machine);
    for (const Process& process : machine->processes()) {
      if (process.killed != kNever) continue;
      const Run* run = Find(process.generation);
      if (run == nullptr) continue;
      for (Node node : run->members) {
        Time answered = std::max(run->started, LastPong(node, run->generation.attempt));
        if (world_.now() <= answered + bound) continue;
        Violate("LeasesEnd", "rank " + std::to_string(process.rank) + " of " +
                                 run->generation.ToString() + " is alive on " + machine->Name() +
                                 ", yet " + world_.machine(node).Name() + " last answered " +
                                 std::to_string((world_.now() - answered).count() / 1'000'000) +
                                 " ms ago");
        return;
      }
    }
  }
}

}  // namespace lockstep::sim
