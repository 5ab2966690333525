#include "core/gang/coordinator/folder_writer.h"

#include <algorithm>
#include <utility>

#include "core/gang/protocol/resume.h"
#include "core/gang/protocol/rules.h"

namespace lockstep::core {

namespace {

constexpr int kMostWrites = 3;
// How long members may take to say that they hold what was granted.
constexpr Duration kHoldPatience = seconds(30);

}  // namespace

// ---- events ----

void FolderWriter::OnGenerationFile(Generation generation, CheckpointId commit) {
  on_volume_ = generation;
  in_folder_ = commit;
  if (in_folder_.exists() && in_folder_ == written_.to) in_folder_ = written_.id;
}

void FolderWriter::OnGranted(Time now, MemoryPart checkpoint) {
  granted_ = std::move(checkpoint);
  granted_at_ = now;
}

void FolderWriter::OnPersisted(uint32_t machine, const Persisted& persisted) {
  if (!writing_ || persisted.id != writing_->to.id || persisted.to != writing_->to.to) return;
  const auto writer = writing_->writers.find(machine);
  if (writer == writing_->writers.end() || writer->second.machines != persisted.machines) return;
  if (!persisted.error.empty()) {
    return GiveUp("machine " + std::to_string(machine) + ": " + persisted.error);
  }
  writing_->writers.erase(writer);
  const bool whole = writing_->writers.empty();
  if (whole || !Holds(Rule::kWriteNeedsEveryPart)) outbox_.Add(writing_->to);
}

void FolderWriter::OnNamed(CheckpointId to, const std::string& error) {
  if (!writing_ || writing_->to.to != to) return;  // an earlier generation's
  if (!error.empty()) return GiveUp(error);
  written_ = writing_->to;
  in_folder_ = std::max(in_folder_, written_.id);
  writing_.reset();
  if (in_folder_ >= granted_.id) unwritten_.clear();
  outbox_.Change();
}

void FolderWriter::AskAgain(const Roster::Slot& slot) {
  if (!writing_) return;
  const auto writer = writing_->writers.find(slot.machine);
  if (writer != writing_->writers.end()) outbox_.Send(slot, writer->second);
}

void FolderWriter::GiveUp(const std::string& why) {
  problem_ = why;
  outbox_.Log("checkpoint " + writing_->to.name + " could not be written from memory to " +
              config_.folder + ": " + why);
  writing_.reset();
  outbox_.Change();
}

// ---- steps ----

void FolderWriter::Begin(Time now, CheckpointId memory) {
  if (granted_.id != memory) granted_ = {memory, 0, copies_.NameOf(memory)};
  unwritten_.clear();
  tries_ = 0;
  if (config_.every > Duration::zero() && next_ == kNever) next_ = now + config_.every;
}

void FolderWriter::CheckWriters(Time now) {
  if (writing_ && now >= writing_->give_up) GiveUp("it took too long");
  for (const Roster::Slot& slot : roster_) {
    const bool gone = slot.lost || slot.leaving || (slot.draining && slot.connection == 0);
    if (writing_ && gone && writing_->writers.contains(slot.machine)) {
      GiveUp("machine " + std::to_string(slot.machine) + " left before it had written");
    }
  }
}

void FolderWriter::WriteNowAndThen(Time now) {
  if (now < next_) return;
  next_ = now + config_.every;
  if (!config_.folder.empty()) WriteNewest(now);
}

bool FolderWriter::WriteLast(Time now, Generation generation) {
  if (config_.folder.empty() || !Holds(Rule::kEndWaitsForWrite)) return false;
  // Who was replaced since holds nothing of this generation, and will not.
  const bool all_here = std::ranges::all_of(roster_, [&](const Roster::Slot& slot) {
    return slot.within_reach() && slot.lost_in != generation;
  });
  const bool granted_is_held = copies_.NewestOf(copies_.WithinReach(), {}) >= granted_.id;
  if (all_here && !granted_is_held && now < granted_at_ + kHoldPatience) return true;
  if (WriteNewest(now)) return true;
  SayWhatIsUnwritten();
  return false;
}

bool FolderWriter::WriteNewest(Time now) {
  if (writing_) return true;
  // Before there is a generation, nothing in memory is of this line.
  if (!on_volume_.exists()) return false;
  const Holdings held = copies_.WithinReach();
  const CheckpointId id = copies_.NewestOf(held, in_folder_);
  if (!id.exists()) return false;
  if (id != tried_) tries_ = 0;
  if (++tries_ > kMostWrites) return false;
  tried_ = id;
  Writing writing;
  writing.give_up = now + config_.patience;
  FinishPersisting& to = writing.to;
  to.id = id;
  // Of an earlier generation it is what this one began from: before all its commits.
  to.to = {on_volume_, id.generation == on_volume_ ? id.number : 0};
  if (!Holds(Rule::kWritesAsItsOwnCommit)) to.to = id;
  // Each machine writes its own part. A machine with a copy also writes the part of a lost machine.
  std::map<uint32_t, uint32_t> writer_of;
  for (const Roster::Slot& slot : roster_) writer_of[slot.machine] = slot.machine;
  for (const FetchPlan& plan : OwnPartsMissing(held, id)) writer_of[plan.machine] = plan.from;
  for (const auto& [machine, writer] : writer_of) {
    writing.writers[writer].machines.push_back(machine);
  }
  to.name = copies_.NameOf(id);
  for (auto& [machine, persist] : writing.writers) {
    persist.id = id;
    persist.to = to.to;
    persist.name = to.name;
    outbox_.Send(roster_[machine], persist);
  }
  writing_ = std::move(writing);
  outbox_.Change();
  return true;
}

// What was granted and is not in the folder. A commit that was granted there since the generation
// began does not count: its program may have died between the yes and the rename.
void FolderWriter::SayWhatIsUnwritten() {
  if (config_.folder.empty()) return;
  if (const CheckpointId id = copies_.NewestOf(copies_.WithinReach(), {});
      !on_volume_.exists() && id.exists()) {
    granted_ = {id, 0, copies_.NameOf(id)};
    problem_ = "machine 0 was replaced and has not begun a generation since";
  }
  if (!unwritten_.empty() || granted_.id <= in_folder_) return;
  const bool whole = copies_.NewestOf(copies_.WithinReach(), {}) >= granted_.id;
  unwritten_ = "checkpoint " + granted_.name + " in memory was not written to " + config_.folder +
               ": " + (whole ? problem_ : "a machine's part of it is gone");
  outbox_.Log(unwritten_);
  outbox_.Change();
}

Time FolderWriter::NextWake(bool running) const {
  return std::min(running ? next_ : kNever, writing_ ? writing_->give_up : kNever);
}

}  // namespace lockstep::core
