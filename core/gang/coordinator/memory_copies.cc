#include "core/gang/coordinator/memory_copies.h"

#include <algorithm>
#include <utility>

namespace lockstep::core {

namespace {

constexpr int kMostFetches = 3;

}  // namespace

Holdings MemoryCopies::Held() const {
  Holdings held;
  for (const Roster::Slot& slot : roster_) {
    held.push_back(slot.memory ? slot.memory->parts : std::vector<MemoryPart>());
  }
  return held;
}

Holdings MemoryCopies::WithinReach() const {
  Holdings held = Held();
  for (const Roster::Slot& slot : roster_) {
    if (!slot.within_reach()) held[slot.machine].clear();
  }
  return held;
}

std::string MemoryCopies::NameOf(CheckpointId id) const {
  for (const Roster::Slot& slot : roster_) {
    if (!slot.memory) continue;
    for (const MemoryPart& part : slot.memory->parts) {
      if (part.id == id) return part.name;
    }
  }
  return "";
}

void MemoryCopies::OnHeld(Roster::Slot& slot, const HeldParts& memory) {
  slot.memory = memory;
  changed_ = true;
}

void MemoryCopies::OnFetchFailed(Roster::Slot& slot, const FetchFailed& failed, bool preparing) {
  failure_ = "machine " + std::to_string(slot.machine) + " could not get machine " +
             std::to_string(failed.part.machine) + "'s part of " + failed.part.name + ": " +
             failed.reason;
  outbox_.Log(failure_);
  slot.fetching.reset();
  if (preparing && ++failed_fetches_[failed.part.id] >= kMostFetches) {
    unusable_.insert(failed.part.id);
  }
  if (failed.part.id == copying_) uncopied_ = copying_;
  changed_ = true;
}

std::optional<CheckpointId> MemoryCopies::Prepare(CheckpointId in_folder,
                                                  const MemoryPart& stored) {
  const Holdings held = Held();
  // At or above what the folder has: one that was written there is read faster from here.
  if (in_folder.number > 0) --in_folder.number;
  const CheckpointId from = NewestOf(held, in_folder);
  if (!from.exists() && stored.id.exists()) return PrepareStored(held, stored);
  const std::vector<FetchPlan> missing = OwnPartsMissing(held, from);
  for (const FetchPlan& plan : missing) Ask(plan);
  if (!missing.empty()) return std::nullopt;
  return from;
}

// Unlike a checkpoint in memory it can't be passed over: the next older one may be the beginning.
std::optional<CheckpointId> MemoryCopies::PrepareStored(const Holdings& held,
                                                        const MemoryPart& stored) {
  if (unusable_.erase(stored.id) > 0) {
    failed_fetches_.erase(stored.id);
    problem_ = failure_;
    return std::nullopt;
  }
  bool missing = false;
  for (const Roster::Slot& slot : roster_) {
    MemoryPart part = stored;
    part.machine = slot.machine;
    if (std::ranges::find(held[slot.machine], part) != held[slot.machine].end()) continue;
    missing = true;
    Ask(slot.machine, part, "");
  }
  if (missing) return std::nullopt;
  return stored.id;
}

void MemoryCopies::Ask(uint32_t machine, const MemoryPart& part, const std::string& address) {
  Roster::Slot& slot = roster_[machine];
  if (slot.fetching == part) return;
  slot.fetching = part;
  outbox_.Send(slot, Fetch{part, address});
}

std::string MemoryCopies::LostSince(CheckpointId from) const {
  MemoryPart newest;
  newest.id = from;
  std::set<uint32_t> machines;
  for (const Roster::Slot& slot : roster_) {
    for (const MemoryPart& part : slot.memory->parts) {
      if (part.id < newest.id || part.id == from) continue;
      if (part.id > newest.id) machines.clear();
      newest = part;
      machines.insert(part.machine);
    }
  }
  if (newest.id == from) return "";
  std::string lost;
  for (uint32_t machine = 0; machine < roster_.size(); ++machine) {
    if (!machines.contains(machine)) lost += (lost.empty() ? "" : ", ") + std::to_string(machine);
  }
  return "checkpoint " + newest.name + " in memory is lost with machine " + lost +
         ", because no machine holds a copy of its part";
}

void MemoryCopies::Begin() {
  copying_ = uncopied_ = copied_ = {};
  failed_fetches_.clear();
  kept_.clear();
  changed_ = true;
}

std::vector<FetchPlan> MemoryCopies::Missing(const Holdings& held) const {
  return copies_ ? CopiesMissing(held, copying_) : std::vector<FetchPlan>();
}

bool MemoryCopies::Step() {
  if (!std::exchange(changed_, false)) return false;
  const Holdings held = Held();
  const CheckpointId newest = NewestOf(held, {});
  if (!newest.exists()) return false;
  auto done = [&] { return copying_ != uncopied_ && Missing(held).empty(); };
  if (!copying_.exists() || copying_ == uncopied_ || done()) {
    if (done()) copied_ = copying_;
    copying_ = newest;
    if (done()) copied_ = copying_;
  }
  const bool newest_is_copied = copies_ && copied_ == newest;
  if (copying_ != uncopied_) {
    for (const FetchPlan& plan : Missing(held)) Ask(plan);
  }
  if (!copied_.exists() && !uncopied_.exists()) return newest_is_copied;
  std::set<CheckpointId> keep = {copied_, copying_, newest};
  keep.erase(CheckpointId{});
  std::vector<CheckpointId> ids(keep.begin(), keep.end());
  if (ids == kept_) return newest_is_copied;
  kept_ = ids;
  for (const Roster::Slot& slot : roster_) outbox_.Send(slot, Keep{ids});
  return newest_is_copied;
}

}  // namespace lockstep::core
