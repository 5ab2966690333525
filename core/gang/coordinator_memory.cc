// Checkpoints in the machines' memory: gang-wide commits, copies, what a generation begins from,
// and the way to the checkpoint folder.
#include <algorithm>
#include <map>
#include <utility>

#include "core/gang/coordinator.h"

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
  if (!persisting_ || persisted.id != persisting_->persist.id) return;
  const Persist& persist = persisting_->persist;
  if (!persisted.error.empty()) {
    Log("machine " + std::to_string(slot.machine) + " could not write " + persist.name +
        " from memory to " + config_.checkpoint_path + ": " + persisted.error);
    persisting_.reset();
    return;
  }
  persisting_->machines.erase(slot.machine);
  if (!persisting_->machines.empty()) return;
  actions_.emplace_back(FinishPersisting{persist.to, persist.name});
}

CoordinatorActions Coordinator::OnPersisted(Time now, CheckpointId to, const std::string& error) {
  if (!error.empty()) Log("writing from memory to the checkpoint folder: " + error);
  if (persisting_ && persisting_->persist.to == to) {  // else an earlier generation's
    if (error.empty()) persisted_ = persisting_->persist.id;
    persisting_.reset();
  }
  return Step(now);
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
      granted_ = {generation_, number};
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
  CheckpointId memory;
  if (config_.memory) {
    const Holdings held = Held();
    // At or above what the folder has: one that was written there is read faster from here.
    CheckpointId above = CheckpointIdOf(prepared_->resume);
    if (above.number > 0) --above.number;
    memory = NewestInMemory(held, unusable_, above);
    const std::vector<FetchPlan> missing = OwnPartsMissing(held, memory);
    for (const FetchPlan& plan : missing) Ask(plan);
    if (!missing.empty()) return;
    SayWhatIsLost(std::max(memory, CheckpointIdOf(prepared_->resume)), memory.exists());
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
                   ", whose part no machine holds a copy of; resuming from " +
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

void Coordinator::CheckPersisting(Time now) {
  if (persisting_ && now >= persisting_->give_up) {
    Log("writing " + persisting_->persist.name + " from memory to " + config_.checkpoint_path +
        " took too long");
    persisting_.reset();
  }
  if (phase_ != CoordinatorPhase::kRunning || now < next_persist_) return;
  next_persist_ = now + config_.persist_every;
  PersistNewest(now);
}

bool Coordinator::PersistLast(Time now) {
  if (!config_.memory || config_.checkpoint_path.empty()) return false;
  const bool all_here =
      std::ranges::all_of(roster_, [](const Slot& slot) { return slot.present(); });
  if (all_here && granted_.exists() && now < granted_at_ + kHoldPatience &&
      NewestInMemory(Held(), unusable_, {}) < granted_) {
    return true;
  }
  return PersistNewest(now);
}

bool Coordinator::PersistNewest(Time now) {
  if (!config_.memory || config_.checkpoint_path.empty()) return false;
  if (persisting_) return now < persisting_->give_up;
  const Holdings held = Held();
  const CheckpointId id = NewestInMemory(held, unusable_, persisted_);
  if (!id.exists() || !OwnPartsMissing(held, id).empty()) return false;
  // A machine that leaves writes nothing more.
  for (const Slot& slot : roster_) {
    if (!slot.present()) return false;
  }
  if (id != tried_) tries_ = 0;
  if (++tries_ > kMostPersists) return false;
  tried_ = id;
  Persisting persisting;
  persisting.persist.id = id;
  // Of an earlier generation it is what this one began from: before all its commits.
  persisting.persist.to = {generation_, id.generation == generation_ ? id.number : 0};
  for (const MemoryPart& part : held.front()) {
    if (part.id == id) persisting.persist.name = part.name;
  }
  persisting.give_up = now + kPersistPatience;
  for (const Slot& slot : roster_) {
    persisting.machines.insert(slot.machine);
    Send(slot, persisting.persist);
  }
  persisting_ = std::move(persisting);
  return true;
}

}  // namespace lockstep::core
