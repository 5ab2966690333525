// What the agent does with ranks, and the guard beside it.
#include <algorithm>
#include <csignal>
#include <utility>

#include "core/gang/protocol/rules.h"
#include "tests/sim/machine.h"
#include "tests/sim/world.h"

namespace lockstep::sim {

namespace {

constexpr Duration kUnkillableAfter = seconds(30);

}  // namespace

// ---- generations ----

void Machine::CarryOut(core::PrepareGeneration& action) {
  world_.volume().Prepare(action.generation, [this](core::Prepared prepared) {
    prepared.master_address = "10.0.0." + std::to_string(node_);
    prepared.port = 30'000 + prepared.generation.n;
    InAgent([this, prepared = std::move(prepared)] {
      CarryOut(coordinator_->OnPrepared(Local(), prepared));
    });
  });
}

void Machine::CarryOut(core::FindPorts& action) {
  core::FoundPorts found;
  found.generation = action.generation;
  found.first = next_port_;
  next_port_ += action.count;
  world_.queue().After(microseconds(100), [this, found = std::move(found)] {
    InAgent([this, found] { CarryOut(coordinator_->OnPortsFound(Local(), found)); });
  });
}

// On each machine something listens on every fifth of those that machine 0 may find.
void Machine::CarryOut(core::ProbePorts& action) {
  const auto& [generation, first, count] = action.ports;
  const bool taken = (first / count + node_) % 5 == 0;
  CarryOut(member_.OnAnswer(Local(), core::PortsTried{generation, first, taken ? first : 0}));
}

// Machines are alike, and so are links.
void Machine::CarryOut(core::MeasureMachine& action) {
  measuring_ = action.measure;
  world_.queue().After(world_.random().Between(milliseconds(1), milliseconds(100)),
                       [this, id = action.measure.id, linked = action.measure.linked] {
                         InAgent([this, id, linked] { EndMeasure(id, linked); });
                       });
}

void Machine::EndMeasure(uint64_t id, bool linked) {
  if (!measuring_ || measuring_->id != id || measuring_->linked != linked) return;
  core::Measured measured;
  measured.id = id;
  measured.linked = linked;
  measured.rates.assign(measuring_->partners.size(), 1.0);
  if (!linked) {
    measured.address = std::to_string(node_);
    measured.token = "token";
  }
  if (measuring_->alone) {
    measured.figures = {1, 1, 1, core::kNotMeasured};
    const bool local = connection_ == kLocalConnection;
    if (connection_ != 0) {
      world_.invariants().OnMeasured(local ? node_ : world_.network().ServerOf(connection_), node_);
    }
  }
  measuring_.reset();
  CarryOut(member_.OnAnswer(Local(), std::move(measured)));
}

void Machine::CarryOut(core::Spawn& action) {
  measuring_.reset();
  // An agent without the code would fail; here its ranks run what lies there.
  if (ServesCode(action.start.code)) tree_ = action.start.code;
  lease_end_ = action.lease_end;
  ArmGuard();
  spawning_ = action.start.generation;
  start_ = action.start;
  spawned_ = 0;
  stopping_.reset();
  bool slow = world_.now() < spawn_delay_until_;
  Duration most = slow ? spawn_delay_ : microseconds(1500);
  Duration after{};
  for (uint32_t local = 0; local < world_.shape().processes; ++local) {
    const uint32_t rank = spec_.index * world_.shape().processes + local;
    if (std::ranges::find(action.kept, rank) != action.kept.end()) {
      TakeIn(action.start, rank);
      continue;
    }
    after += world_.random().Between(microseconds(200), most);
    world_.queue().After(after, [this, start = action.start, local] {
      InAgent([this, start, local] { Exec(start, local); });
    });
  }
}

void Machine::Exec(const core::Start& start, uint32_t local_rank) {
  if (start.generation != spawning_) return;
  if (stopping_ && stopping_->generation == start.generation) return;
  // The agent may have been stopped since; it looks at the lease again before each exec.
  if (Local() >= lease_end_ && Holds(core::Rule::kLeaseExpires)) return;
  const uint32_t rank = start.PlaceOf(spec_.index) * world_.shape().processes + local_rank;
  if (std::exchange(fail_next_spawn_, false)) {
    world_.Log(Name(), " cannot start rank ", rank);
    world_.invariants().OnApplicationFault();
    core::Failure death;
    death.rank = static_cast<int>(rank);
    death.cause = core::Cause::kCommandNotFound;
    death.exit_code = 127;
    death.at = Local();
    death.by_itself = true;
    CarryOut(member_.OnProcessDied(Local(), start.generation, death));
    return;
  }
  Run(start, rank);
  CountSpawned(start.generation);
}

void Machine::CountSpawned(core::Generation generation) {
  if (++spawned_ < world_.shape().processes) return;
  world_.queue().After(microseconds(1), [this, generation] {
    InAgent([this, generation] { CarryOut(member_.OnSpawned(Local(), generation)); });
  });
}

bool Machine::ServesCode(const std::string& digest) const {
  return alive_ && std::ranges::find(codes_, digest) != codes_.end();
}

void Machine::HoldCode(const std::string& digest) {
  std::erase(codes_, digest);
  codes_.push_back(digest);
  const auto is_old = [this](const std::string& each) { return each != tree_; };
  while (std::ranges::count_if(codes_, is_old) > 2) {
    codes_.erase(std::ranges::find_if(codes_, is_old));
  }
  CarryOut(member_.OnCodeHeld(Local(), codes_));
}

void Machine::CarryOut(core::FetchVersion& action) {
  const auto from = static_cast<Node>(std::stoul(action.fetch.address));
  world_.queue().After(
      world_.random().Between(milliseconds(1), milliseconds(world_.random().Chance(80) ? 30 : 900)),
      [this, from, digest = action.fetch.digest] {
        InAgent([this, from, digest] {
          const bool there =
              world_.machine(from).ServesCode(digest) && !world_.network().Blocked(node_, from);
          if (there) return HoldCode(digest);
          CarryOut(member_.OnCodeFailed(Local(), digest, "it is gone"));
        });
      });
}

void Machine::TakeIn(const core::Start& start, uint32_t rank) {
  for (Process& process : processes_) {
    if (process.rank != rank || process.killed != kNever) continue;
    world_.Log(Name(), " takes rank ", rank, " of ", process.generation, " into ",
               start.generation);
    if (!process.left) {
      world_.invariants().Violate("KeptHaveLeft",
                                  Name() + " takes in rank " + std::to_string(rank) +
                                      ", which has not left " + process.generation.ToString());
    }
    if (process.generation.attempt != start.generation.attempt) {
      world_.invariants().Violate(
          "KeptHaveLeft", Name() + " takes in what another machine 0 kept, rank " +
                              std::to_string(rank) + " of " + process.generation.ToString());
    }
    process.generation = start.generation;
    process.told = process.left = false;
    world_.invariants().OnExec(*this, process, start);
    world_.training().OnExec(node_, process.pid, start, rank,
                             start.memory.exists() ? InMemory(start.memory) : start.resume);
    break;
  }
  CountSpawned(start.generation);
}

void Machine::TellEnd(Process& process) {
  if (std::exchange(process.told, true)) return;
  Random& random = world_.random();
  if (random.Chance(5)) return;  // it never listens
  const Duration takes = random.Chance(80) ? random.Between(milliseconds(1), milliseconds(300))
                                           : random.Between(seconds(1), seconds(8));
  world_.queue().After(takes, [this, pid = process.pid, generation = process.generation] {
    Process* one = Find(pid);
    if (one == nullptr || one->generation != generation || one->killed != kNever) return;
    one->left = true;
    InAgent([this, generation, rank = one->rank] {
      CarryOut(member_.OnLeft(Local(), generation, rank));
    });
  });
}

void Machine::Exit(uint32_t pid, core::Generation generation, int exit_code) {
  const Process* process = Find(pid);
  if (process == nullptr || process->generation != generation || process->left) return;
  // It has lost a peer, and waits for its agent.
  if (exit_code != 0 && process->rejoins) return;
  EndProcess(pid, exit_code, 0);
}

void Machine::Run(const core::Start& start, uint32_t rank) {
  Process process;
  process.pid = world_.NextPid();
  process.rank = rank;
  process.generation = start.generation;
  process.code = tree_;
  process.rejoins = world_.shape().in_place && world_.random().Chance(85);
  processes_.push_back(process);
  if (process.rejoins) {
    world_.queue().After(world_.random().Between(milliseconds(1), milliseconds(40)),
                         [this, pid = process.pid, generation = process.generation, rank] {
                           if (Find(pid) == nullptr) return;
                           InAgent([this, generation, rank] {
                             CarryOut(member_.OnRejoins(Local(), generation, rank, true));
                           });
                         });
  }
  world_.Log(Name(), " exec rank ", rank, " of ", start.generation);
  world_.invariants().OnExec(*this, process, start);
  world_.training().OnExec(node_, process.pid, start, rank,
                           start.memory.exists() ? InMemory(start.memory) : start.resume);
}

void Machine::CarryOut(core::SpawnAgain& action) {
  // What it left behind is killed first.
  world_.queue().After(world_.random().Between(microseconds(200), milliseconds(4)),
                       [this, generation = action.generation, rank = action.rank] {
                         InAgent([this, generation, rank] { ExecAgain(generation, rank); });
                       });
}

void Machine::ExecAgain(core::Generation generation, uint32_t rank) {
  if (generation != spawning_) return;
  if (stopping_ && stopping_->generation == generation) return;
  if (Local() >= lease_end_ && Holds(core::Rule::kLeaseExpires)) return;
  Run(start_, rank);
}

void Machine::CarryOut(core::StopProcesses& action) {
  Time kill_at = clock_.True(action.kill_at);
  bool now = action.kill_at <= Local();
  world_.Log(Name(), " stops ", action.generation, now ? " by SIGKILL" : " by SIGTERM");
  stopping_ = Stopping{action.generation, kill_at, action.spared};
  core::Generation generation = action.generation;
  for (Process& process : processes_) {
    if (process.generation != generation) continue;
    if (action.spared.contains(process.rank)) {
      TellEnd(process);
    } else if (process.told) {
      KillProcess(process);
    }
  }
  if (!now) {
    for (Process& process : processes_) {
      if (process.generation != generation || process.terminated) continue;
      if (action.spared.contains(process.rank)) continue;
      process.terminated = true;
      if (world_.random().Chance(40)) continue;  // it ignores SIGTERM
      int code = world_.random().Chance(60) ? 0 : 143;
      world_.queue().After(world_.random().Between(milliseconds(1), milliseconds(400)),
                           [this, pid = process.pid, code] { EndProcess(pid, code, 0); });
    }
    world_.queue().At(kill_at, [this, generation] {
      InAgent([this, generation] {
        if (!stopping_ || stopping_->generation != generation) return;
        KillGeneration(generation, stopping_->spared);
      });
    });
  } else {
    KillGeneration(generation, action.spared);
  }
  world_.queue().At(std::max(kill_at, world_.now()) + kUnkillableAfter, [this, generation] {
    InAgent([this, generation] {
      const bool killed = std::ranges::any_of(processes_, [&](const Process& process) {
        return process.generation == generation && process.killed != kNever;
      });
      if (killed) CarryOut(member_.OnUnkillable(Local(), generation));
    });
  });
  // The sweep takes a moment even where nothing is left.
  world_.queue().After(microseconds(100), [this] { InAgent([this] { CheckAllDead(); }); });
}

bool Machine::Alive(core::Generation generation, const std::set<uint32_t>& spared) const {
  return std::ranges::any_of(processes_, [&](const Process& process) {
    return process.generation == generation && !spared.contains(process.rank);
  });
}

void Machine::CheckAllDead() {
  if (!stopping_ || Alive(stopping_->generation, stopping_->spared)) return;
  core::Generation generation = stopping_->generation;
  stopping_.reset();
  if (spawning_ == generation) spawning_ = {};
  CarryOut(member_.OnAllDead(Local(), generation));
}

void Machine::KillProcess(Process& process) {
  if (process.killed != kNever) return;
  process.killed = world_.now();
  process.lease_end = clock_.True(lease_end_);
  bool slow = world_.now() < death_delay_until_;
  Duration takes = slow ? world_.random().Between(death_delay_ / 2, death_delay_)
                        : world_.random().Between(microseconds(100), milliseconds(3));
  world_.queue().After(takes, [this, pid = process.pid] { EndProcess(pid, -1, SIGKILL); });
}

void Machine::KillGeneration(core::Generation generation, const std::set<uint32_t>& spared) {
  MarkLeft(generation);
  for (Process& process : processes_) {
    if (process.generation == generation && !spared.contains(process.rank)) KillProcess(process);
  }
}

void Machine::KillAll() {
  for (Process& process : processes_) {
    MarkLeft(process.generation);
    KillProcess(process);
  }
}

Process* Machine::Find(uint32_t pid) {
  auto it = std::find_if(processes_.begin(), processes_.end(),
                         [pid](const Process& process) { return process.pid == pid; });
  return it == processes_.end() ? nullptr : &*it;
}

void Machine::EndProcess(uint32_t pid, int exit_code, int signal) {
  Process* process = Find(pid);
  // Once SIGKILL is sent, that is what it dies of, in its time.
  if (process == nullptr || (process->killed != kNever && signal != SIGKILL)) return;
  bool by_itself = process->killed == kNever && !process->terminated;
  bool well = exit_code == 0 && by_itself;
  uint32_t rank = process->rank;
  core::Generation generation = process->generation;
  processes_.erase(processes_.begin() + (process - processes_.data()));
  world_.Log(Name(), " rank ", rank, " of ", generation, " ended: code ", exit_code, " signal ",
             signal);
  world_.training().OnEnd(generation, rank, well);
  CheckTerminated();
  core::Failure death;
  death.rank = static_cast<int>(rank);
  death.cause = signal != 0 ? core::Cause::kProcessSignal : core::Cause::kProcessExit;
  death.exit_code = exit_code;
  death.signal = signal;
  death.at = Local();
  death.by_itself = by_itself;
  InAgent([this, generation, rank, death] {
    if (death.exit_code == 0) {
      CarryOut(member_.OnProcessFinished(Local(), generation, rank, death.by_itself));
    } else {
      CarryOut(member_.OnProcessDied(Local(), generation, death));
    }
    if (alive_) CheckAllDead();
  });
}

void Machine::OnProgress(uint32_t rank, int64_t step) {
  InAgent([this, rank, step] {
    core::RankProgress progress;
    progress.rank = rank;
    progress.step = step;
    progress.total_steps = world_.shape().steps;
    CarryOut(member_.OnProgress(Local(), progress));
  });
}

void Machine::OnCommit(core::Generation generation) {
  InAgent([this, generation] {
    uint64_t id = next_commit_++;
    commits_[id] = {generation, ""};
    CarryOut(member_.OnCommit(Local(), id));
  });
}

void Machine::OnMemoryCommit(core::Generation generation, const std::string& name) {
  InAgent([this, generation, name] {
    // The agent takes the part before it asks, and does not ask for a generation that is over.
    if (generation != member_.generation()) return;
    uint64_t id = next_commit_++;
    commits_[id] = {generation, name};
    memory_commits_[id] = name;
    CarryOut(
        member_.OnMemoryCommit(Local(), id, name, world_.random().Chance(5) ? "it is full" : ""));
  });
}

// The part is read, which takes a while, and counts from then on.
void Machine::Hold(const core::MemoryPart& part, Duration after) {
  world_.queue().After(after, [this, part] {
    InAgent([this, part] { CarryOut(member_.OnPartHeld(Local(), part)); });
  });
}

bool Machine::HasPart(const core::MemoryPart& part) const {
  return std::ranges::find(member_.parts(), part) != member_.parts().end();
}

bool Machine::Serves(const core::MemoryPart& part) const {
  return alive_ && !stopped_ && HasPart(part);
}

// It may fail as often as it likes: a checkpoint there is never passed over.
void Machine::FetchStored(const core::MemoryPart& part) {
  const Duration takes =
      world_.volume().Latency() + world_.random().Between(milliseconds(1), milliseconds(60));
  world_.queue().After(takes, [this, part] {
    const bool there = world_.volume().Recall(part.id);
    if (there && !world_.random().Chance(20)) return Hold(part, Duration::zero());
    InAgent([this, part] { CarryOut(member_.OnFetchFailed(Local(), part, "the store is down")); });
  });
}

void Machine::CarryOut(core::FetchPart& action) {
  if (action.fetch.address.empty()) return FetchStored(action.fetch.part);
  const Duration takes = world_.random().Between(milliseconds(1), milliseconds(60));
  world_.queue().After(takes, [this, fetch = action.fetch] {
    const auto from = static_cast<Node>(std::stoul(fetch.address));
    const bool there = world_.machine(from).Serves(fetch.part) &&
                       !world_.network().Blocked(node_, from) && !world_.random().Chance(10);
    if (there) return Hold(fetch.part, Duration::zero());
    InAgent([this, fetch] {
      world_.invariants().OnFetchFailed(*this, fetch.part.id);
      CarryOut(member_.OnFetchFailed(Local(), fetch.part, "it is torn, or nobody answers"));
    });
  });
}

void Machine::CarryOut(core::DropParts& action) {
  for (const core::MemoryPart& part : action.parts) {
    world_.Log(Name(), " drops machine ", part.machine, "'s part of ", InMemory(part.id));
  }
}

// Asked again around a reconnect, it is answered once.
void Machine::CarryOut(core::PersistPart& action) {
  const core::Persist persist = action.persist;
  if (std::ranges::find(persisting_, persist) != persisting_.end()) return;
  // What is dropped while it is written stays until then.
  const bool held = std::ranges::all_of(persist.machines, [&](uint32_t machine) {
    return HasPart({persist.id, machine, persist.name});
  });
  persisting_.push_back(persist);
  if (coordinator_) world_.volume().RemoveUnfinished(persist.to, persist.id);
  Random& random = world_.random();
  Duration takes = world_.volume().Latency() + random.Between(milliseconds(1), milliseconds(60));
  if (random.Chance(10)) takes += random.Between(milliseconds(60), seconds(3));
  volume_free_ = std::max(volume_free_, world_.now()) + takes;
  world_.queue().At(volume_free_, [this, persist, held] {
    if (alive_) return InAgent([this, persist, held] { Write(persist, held); });
    // What was on its way when it died may have arrived.
    if (world_.random().Chance(50)) world_.volume().Lay(persist.to, persist.id, spec_.index);
  });
}

void Machine::Write(const core::Persist& persist, bool held) {
  std::erase(persisting_, persist);
  std::string error = held ? "" : "this machine holds no part of it";
  if (world_.random().Chance(8)) error = "no space left on device";
  for (const uint32_t machine : persist.machines) {
    if (error.empty()) world_.volume().Lay(persist.to, persist.id, machine);
  }
  world_.Log(Name(), " writes ", InMemory(persist.id), " to ", persist.to.generation, "/",
             persist.to.number, ": ", error.empty() ? "done" : error);
  CarryOut(member_.OnPersisted(Local(), {persist.id, error, persist.to, persist.machines}));
}

void Machine::CarryOut(core::FinishPersisting& action) {
  world_.volume().Finish(action, [this, to = action.to](const std::string& error) {
    InAgent([this, to, error] {
      world_.Log(Name(), " has written ", to.generation, "/", to.number, ": ", error);
      CarryOut(coordinator_->OnPersisted(Local(), to, error));
    });
  });
}

std::string InMemory(core::CheckpointId id) {
  return "memory/" + id.generation.ToString() + "/" + std::to_string(id.number);
}

void Machine::CarryOut(core::AnswerCommit& action) {
  const auto [generation, name] = commits_[action.id];
  commits_.erase(action.id);
  if (!name.empty()) {
    world_.Log(Name(), " memory commit ", name, " of ", generation, ": number ", action.number);
    world_.training().OnMemoryCommitAnswered(generation, name, action.number);
    if (action.granted) {
      Hold({{generation, action.number}, spec_.index, name},
           world_.random().Between(milliseconds(1), milliseconds(50)));
    }
    return;
  }
  world_.Log(Name(), " commit of ", generation, action.granted ? ": yes, number " : ": no, ",
             action.number, " ", action.reason);
  world_.training().OnCommitAnswered(generation, action.granted, action.number);
}

// ---- the guard ----

void Machine::CarryOut(core::SetLease& action) {
  lease_end_ = action.end;
  ArmGuard();
}

void Machine::ArmGuard() {
  Time at = std::max(clock_.True(lease_end_), world_.now());
  if (!guard_alive_ || at >= guard_wake_) return;
  guard_wake_ = at;
  Duration late = world_.random().Between(Duration::zero(), milliseconds(5));
  world_.queue().At(at + late, [this, at = at.count()] {
    if (guard_wake_.count() != at) return;  // an earlier one was armed since
    guard_wake_ = kNever;
    GuardWakes();
  });
}

void Machine::GuardWakes() {
  if (terminated() || !guard_alive_ || guard_stopped_) return;
  if (world_.Mutated("NoGuard") || !Holds(core::Rule::kLeaseExpires)) return;
  if (Local() < lease_end_) return ArmGuard();
  if (processes_.empty()) return;
  world_.Log(Name(), " guard kills the ranks");
  KillAll();
  InAgent([this] { CarryOut(member_.OnGuardKilled(Local())); });
}

void Machine::StopGuard(Duration duration) {
  if (!guard_alive_ || guard_stopped_ || !alive_ || stopped_) return;
  world_.Log(Name(), " guard is stopped");
  guard_stopped_ = true;
  world_.queue().After(duration, [this] { GuardGoesOn(); });
}

void Machine::GuardGoesOn() {
  guard_stopped_ = false;
  guard_wake_ = kNever;
  ArmGuard();
}

void Machine::KillGuard() {
  if (!guard_alive_ || guard_stopped_ || !alive_ || stopped_) return;
  guard_alive_ = false;
  bool replaced = world_.random().Chance(75);
  world_.Log(Name(), " guard is dead");
  world_.queue().After(world_.random().Between(milliseconds(1), milliseconds(20)),
                       [this, replaced] {
                         InAgent([this, replaced] {
                           guard_alive_ = true;
                           ArmGuard();
                           if (replaced) return;
                           KillAll();
                           CarryOut(member_.OnGuardKilled(Local()));
                         });
                       });
}

}  // namespace lockstep::sim
