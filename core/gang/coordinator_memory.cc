// Checkpoints in the machines' memory: gang-wide commits, copies, what a generation begins from,
// and the way to the checkpoint folder.
#include <algorithm>
#include <map>
#include <utility>

#include "core/gang/coordinator.h"
#include "core/gang/rules.h"

namespace lockstep::core {

namespace {

constexpr int kMostFetches = 3;
constexpr int kMostPersists = 3;
// How long members may take to say that they hold what was granted.
constexpr Duration kHoldPatience = seconds(30);

}  // namespace

Holdings Coordinator::Held() const {
  Holdings held;
  for (const Slot& slot : roster_) {
    held.push_back(slot.memory ? slot.memory->parts : std::vector<MemoryPart>());
  }
  return held;
}

// ---- what members say ----

void Coordinator::Handle(Time, Slot& slot, const Memory& memory) {
  slot.memory = memory;
  memory_changed_ = true;
}

void Coordinator::Handle(Time, Slot& slot, const FetchFailed& failed) {
  Log("machine " + std::to_string(slot.machine) + " could not get machine " +
      std::to_string(failed.part.machine) + "'s part of " + failed.part.name + ": " +
      failed.reason);
  slot.fetching.reset();
  if (phase_ == CoordinatorPhase::kPreparing && ++failed_fetches_[failed.part.id] >= kMostFetches) {
    unusable_.insert(failed.part.id);
  }
  if (failed.part.id == copying_) uncopied_ = copying_;
  memory_changed_ = true;
}

void Coordinator::Handle(Time, Slot& slot, const Persisted& persisted) {
  if (!persisting_ || persisted.id != persisting_->to.id || persisted.to != persisting_->to.to) {
    return;
  }
  const auto writer = persisting_->writers.find(slot.machine);
  if (writer == persisting_->writers.end() || writer->second.machines != persisted.machines) return;
  if (!persisted.error.empty()) {
    return GiveUpPersisting("machine " + std::to_string(slot.machine) + ": " + persisted.error);
  }
  persisting_->writers.erase(writer);
  const bool whole = persisting_->writers.empty();
  if (whole || !Holds(Rule::kWriteNeedsEveryPart)) actions_.emplace_back(persisting_->to);
}

CoordinatorActions Coordinator::OnPersisted(Time now, CheckpointId to, const std::string& error) {
  if (persisting_ && persisting_->to.to == to) {  // else an earlier generation's
    if (error.empty()) {
      persisted_ = persisting_->to;
      in_folder_ = std::max(in_folder_, persisted_.id);
      persisting_.reset();
      if (in_folder_ >= granted_.id) unwritten_.clear();
      ++version_;
    } else {
      GiveUpPersisting(error);
    }
  }
  return Step(now);
}

void Coordinator::GiveUpPersisting(const std::string& why) {
  persist_problem_ = why;
  Log("checkpoint " + persisting_->to.name + " could not be written from memory to " +
      config_.checkpoint_path + ": " + why);
  persisting_.reset();
  ++version_;
}

// ---- commits ----

// One is granted when every machine has asked for it, in this generation; if one can't keep its
// part, none keeps it.
void Coordinator::CheckMemoryCommits(Time now) {
  std::map<std::string, std::set<uint32_t>> machines;
  std::set<uint32_t> waiting;
  for (const MemoryCommit& pending : memory_commits_) {
    machines[pending.request.name].insert(pending.machine);
    waiting.insert(pending.machine);
  }
  for (const auto& [name, asked] : machines) {
    if (asked.size() < roster_.size()) continue;
    std::string problem;
    for (const MemoryCommit& pending : memory_commits_) {
      if (pending.request.name != name || pending.request.problem.empty()) continue;
      problem = "machine " + std::to_string(pending.machine) + ": " + pending.request.problem;
    }
    const uint32_t number = problem.empty() ? ++commit_number_ : 0;
    if (number != 0) {
      granted_ = {{generation_, number}, 0, name};
      granted_at_ = now;
    }
    std::erase_if(memory_commits_, [&, &of = name](const MemoryCommit& pending) {
      if (pending.request.name != of) return false;
      Send(roster_[pending.machine], CommitReply{pending.request.id, number != 0, number, problem});
      return true;
    });
    waiting.clear();
  }
  if (waiting.size() < roster_.size()) return;
  // One that some machine has left undone is in the way of no later one.
  const std::string newest = memory_commits_.back().request.name;
  std::erase_if(memory_commits_, [&](const MemoryCommit& pending) {
    if (pending.request.name == newest) return false;
    Send(roster_[pending.machine],
         CommitReply{pending.request.id, false, 0,
                     "another machine commits " + newest +
                         "; all commit their parts of a checkpoint under one name"});
    return true;
  });
}

// ---- beginning ----

void Coordinator::CheckPrepared(Time now) {
  if (phase_ != CoordinatorPhase::kPreparing || !prepared_) return;
  if (Obstacle(now) != CoordinatorPhase::kPreparing) return Wait();
  // Who took another's place meanwhile.
  const bool measured = !preflight_ || preflight_->Knows(Attempts());
  if (!measured && Holds(Rule::kMeasuredBeforeStart)) return Wait();
  if (!HavePorts()) return;
  CheckpointId memory;
  if (config_.memory) {
    const Holdings held = Held();
    // At or above what the folder has: one that was written there is read faster from here.
    CheckpointId below = in_folder_;
    if (below.number > 0) --below.number;
    memory = NewestInMemory(held, unusable_, below);
    const std::vector<FetchPlan> missing = OwnPartsMissing(held, memory);
    for (const FetchPlan& plan : missing) Ask(plan);
    if (!missing.empty()) return;
    SayWhatIsLost(std::max(memory, in_folder_), memory.exists());
  }
  Announce(now, *std::exchange(prepared_, std::nullopt), memory);
}

void Coordinator::Ask(const FetchPlan& plan) {
  Slot& slot = roster_[plan.machine];
  if (slot.fetching == plan.part) return;
  slot.fetching = plan.part;
  Send(slot, Fetch{plan.part, roster_[plan.from].memory->address});
}

// Parts are held of something newer than what the generation begins from: it is not whole.
void Coordinator::SayWhatIsLost(CheckpointId from, bool in_memory) {
  MemoryPart newest;
  newest.id = from;
  std::set<uint32_t> machines;
  for (const Slot& slot : roster_) {
    for (const MemoryPart& part : slot.memory->parts) {
      if (part.id < newest.id || part.id == from) continue;
      if (part.id > newest.id) machines.clear();
      newest = part;
      machines.insert(part.machine);
    }
  }
  if (newest.id == from) return;
  std::string lost;
  for (uint32_t machine = 0; machine < roster_.size(); ++machine) {
    if (!machines.contains(machine)) lost += (lost.empty() ? "" : ", ") + std::to_string(machine);
  }
  last_decision_ = "checkpoint " + newest.name + " in memory is lost with machine " + lost +
                   ", because no machine holds a copy of its part; resuming from " +
                   (in_memory                   ? "an older one in memory"
                    : prepared_->resume.empty() ? "the beginning"
                                                : prepared_->resume);
  Log(last_decision_);
}

// ---- while it runs ----

// Copies of one checkpoint are finished before those of the next begin. What is older than the last
// that is whole everywhere is dropped.
void Coordinator::CheckCopies() {
  if (!config_.memory || !Live() || !std::exchange(memory_changed_, false)) return;
  const Holdings held = Held();
  const CheckpointId newest = NewestInMemory(held, unusable_, {});
  if (!newest.exists()) return;
  auto missing = [&] {
    return config_.memory_copies ? CopiesMissing(held, copying_) : std::vector<FetchPlan>();
  };
  auto done = [&] { return copying_ != uncopied_ && missing().empty(); };
  if (!copying_.exists() || copying_ == uncopied_ || done()) {
    if (done()) copied_ = copying_;
    copying_ = newest;
    if (done()) copied_ = copying_;
  }
  if (config_.memory_copies && copied_ == newest) ReplaceStraggler();
  if (copying_ != uncopied_) {
    for (const FetchPlan& plan : missing()) Ask(plan);
  }
  if (!copied_.exists() && !uncopied_.exists()) return;
  std::set<CheckpointId> keep = {copied_, copying_, newest};
  keep.erase(CheckpointId{});
  std::vector<CheckpointId> ids(keep.begin(), keep.end());
  if (ids == kept_) return;
  kept_ = ids;
  for (const Slot& slot : roster_) Send(slot, Keep{ids});
}

// ---- to the folder ----

Holdings Coordinator::WithinReach() const {
  Holdings held = Held();
  for (const Slot& slot : roster_) {
    if (!slot.within_reach()) held[slot.machine].clear();
  }
  return held;
}

std::string Coordinator::NameInMemory(CheckpointId id) const {
  for (const Slot& slot : roster_) {
    if (!slot.memory) continue;
    for (const MemoryPart& part : slot.memory->parts) {
      if (part.id == id) return part.name;
    }
  }
  return "";
}

void Coordinator::CheckPersisting(Time now) {
  if (persisting_ && now >= persisting_->give_up) GiveUpPersisting("it took too long");
  for (const Slot& slot : roster_) {
    const bool gone = slot.lost || slot.leaving || (slot.draining && slot.connection == 0);
    if (persisting_ && gone && persisting_->writers.contains(slot.machine)) {
      GiveUpPersisting("machine " + std::to_string(slot.machine) + " left before it had written");
    }
  }
  if (phase_ != CoordinatorPhase::kRunning || now < next_persist_) return;
  next_persist_ = now + config_.persist_every;
  if (Persists()) PersistNewest(now);
}

bool Coordinator::PersistLast(Time now) {
  if (!Persists() || !Holds(Rule::kEndWaitsForWrite)) return false;
  const Holdings held = WithinReach();
  // Who was replaced since holds nothing of this generation, and will not.
  const bool all_here = std::ranges::all_of(roster_, [this](const Slot& slot) {
    return slot.within_reach() && slot.lost_in != generation_;
  });
  const bool granted_is_held = NewestInMemory(held, unusable_, {}) >= granted_.id;
  if (all_here && !granted_is_held && now < granted_at_ + kHoldPatience) return true;
  if (PersistNewest(now)) return true;
  SayWhatIsUnwritten();
  return false;
}

bool Coordinator::PersistNewest(Time now) {
  if (persisting_) return true;
  // Before there is a generation, nothing in memory is of this line.
  if (!on_volume_.exists()) return false;
  const Holdings held = WithinReach();
  const CheckpointId id = NewestInMemory(held, unusable_, in_folder_);
  if (!id.exists()) return false;
  if (id != tried_) tries_ = 0;
  if (++tries_ > kMostPersists) return false;
  tried_ = id;
  Persisting persisting;
  persisting.give_up = now + kPersistPatience;
  FinishPersisting& to = persisting.to;
  to.id = id;
  // Of an earlier generation it is what this one began from: before all its commits.
  to.to = {on_volume_, id.generation == on_volume_ ? id.number : 0};
  if (!Holds(Rule::kWritesAsItsOwnCommit)) to.to = id;
  // Each machine writes its own part, and whoever has a copy that of a machine that is gone.
  std::map<uint32_t, uint32_t> writer_of;
  for (const Slot& slot : roster_) writer_of[slot.machine] = slot.machine;
  for (const FetchPlan& plan : OwnPartsMissing(held, id)) writer_of[plan.machine] = plan.from;
  for (const auto& [machine, writer] : writer_of) {
    persisting.writers[writer].machines.push_back(machine);
  }
  to.name = NameInMemory(id);
  for (auto& [machine, persist] : persisting.writers) {
    persist.id = id;
    persist.to = to.to;
    persist.name = to.name;
    Send(roster_[machine], persist);
  }
  persisting_ = std::move(persisting);
  ++version_;
  return true;
}

// What was granted and is not in the folder. A commit that was granted there since the generation
// began does not count: its program may have died between the yes and the rename.
void Coordinator::SayWhatIsUnwritten() {
  if (const CheckpointId id = NewestInMemory(WithinReach(), unusable_, {});
      !on_volume_.exists() && id.exists()) {
    granted_ = {id, 0, NameInMemory(id)};
    persist_problem_ = "machine 0 was replaced and has not begun a generation since";
  }
  if (!unwritten_.empty() || granted_.id <= in_folder_) return;
  const bool whole = NewestInMemory(WithinReach(), unusable_, {}) >= granted_.id;
  unwritten_ = "checkpoint " + granted_.name + " in memory was not written to " +
               config_.checkpoint_path + ": " +
               (whole ? persist_problem_ : "a machine's part of it is gone");
  Log(unwritten_);
  ++version_;
}

}  // namespace lockstep::core
