#include "tests/sim/volume.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tests/sim/world.h"

namespace lockstep::sim {

namespace {

std::string PathOf(core::CheckpointId id) {
  return id.generation.ToString() + "/" + std::to_string(id.number);
}

}  // namespace

void Volume::Slow(Duration most, Duration duration) {
  slow_ = most;
  slow_until_ = world_.now() + duration;
}

Duration Volume::Latency() {
  Duration most = world_.now() < slow_until_ ? slow_ : milliseconds(2);
  return world_.random().Between(microseconds(100), most);
}

void Volume::Prepare(core::Generation generation, Done done) {
  world_.queue().After(Latency(), [this, generation, done = std::move(done)] {
    if (const uint32_t later = core::LaterAttempt(files_, generation); later != 0) {
      world_.Log("volume: ", generation, " comes after attempt ", later);
      core::Prepared prepared;
      prepared.generation = generation;
      prepared.later = later;
      return done(std::move(prepared));
    }
    world_.invariants().OnListed(generation);
    std::string resume = core::ChooseResume(files_, checkpoints_, generation);
    if (world_.Mutated("ReaderIgnoresLine") && !checkpoints_.empty()) {
      resume = checkpoints_.back().path;
    }
    world_.queue().After(Latency(), [this, generation, done, resume = std::move(resume)] {
      Create(generation, resume, done);
    });
  });
}

void Volume::Create(core::Generation generation, const std::string& resume, const Done& done) {
  bool exists = std::any_of(files_.begin(), files_.end(), [&](const core::GenerationFile& file) {
    return file.generation == generation;
  });
  if (!exists) files_.push_back({generation, resume});
  world_.Log("volume: generations/", generation, exists ? " exists" : " resumes ",
             exists ? "" : resume);
  core::Prepared prepared;
  prepared.generation = generation;
  prepared.resume = resume;
  prepared.commit = core::CheckpointIdOf(resume);
  if (exists) prepared.error = "the generation's file exists";
  done(std::move(prepared));
}

void Volume::Rename(core::Generation generation, uint32_t number, int64_t step, Duration late) {
  world_.queue().After(late + Latency(), [this, generation, number, step] {
    std::string path = generation.ToString() + "/" + std::to_string(number);
    world_.Log("volume: checkpoint ", path, " of step ", step, " is complete");
    checkpoints_.push_back({generation, number, path});
    steps_[path] = step;
    world_.invariants().OnComplete({generation, number}, path, step);
  });
}

// ---- from memory ----

void Volume::Lay(core::CheckpointId to, core::CheckpointId id, uint32_t machine) {
  unfinished_[{to.generation, id}].insert(machine);
}

void Volume::RemoveUnfinished(core::CheckpointId to, core::CheckpointId id) {
  std::erase_if(unfinished_,
                [&](const auto& each) { return each.first != std::pair(to.generation, id); });
}

void Volume::Finish(const core::FinishPersisting& action, std::function<void(std::string)> done) {
  world_.queue().After(Latency(), [this, action, done = std::move(done)] {
    std::string error = Place(action);
    world_.queue().After(microseconds(50), [error, done] { done(error); });
  });
}

std::string Volume::Place(const core::FinishPersisting& action) {
  const core::CheckpointId to = action.to;
  const auto found = unfinished_.find({to.generation, action.id});
  if (found == unfinished_.end()) return "there is no such folder";
  const std::set<uint32_t> parts = found->second;
  if (parts.size() != world_.shape().machines && !world_.Mutated("WriteNeedsEveryPart")) {
    return "a part is gone from it";
  }
  const bool exists = std::ranges::any_of(checkpoints_, [&](const core::CheckpointEntry& entry) {
    return entry.generation == to.generation && entry.number == to.number;
  });
  if (exists) return "it exists";
  const std::string path = PathOf(to);
  world_.Log("volume: checkpoint ", path, " is complete, of ", InMemory(action.id));
  unfinished_.erase(found);
  checkpoints_.push_back({to.generation, to.number, path});
  steps_[path] = StepOf(InMemory(action.id));
  origins_[path] = OriginOf(action.id);
  world_.invariants().OnComplete(to, path, steps_[path]);
  world_.invariants().OnWritten(to, action.id, parts);
  return "";
}

core::CheckpointId Volume::OriginOf(const std::string& path) const {
  const auto it = origins_.find(path);
  return it == origins_.end() ? core::CheckpointIdOf(path) : it->second;
}

core::CheckpointId Volume::OriginOf(core::CheckpointId id) const {
  const auto it = origins_.find(PathOf(id));
  return it == origins_.end() ? id : it->second;
}

bool Volume::Recall(core::CheckpointId id) {
  const auto step = steps_.find(PathOf(id));
  if (step == steps_.end()) return false;
  world_.Log("volume: checkpoint ", PathOf(id), " is fetched");
  Remember(InMemory(id), step->second);
  return true;
}

std::string Volume::Newest() const {
  constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
  return core::ChooseResume(files_, checkpoints_, {kMost, kMost});
}

int64_t Volume::StepOf(const std::string& path) const {
  auto it = steps_.find(path);
  return it == steps_.end() ? 0 : it->second;
}

core::Generation Volume::Highest() const {
  core::Generation highest;
  for (const core::GenerationFile& file : files_) highest = std::max(highest, file.generation);
  return highest;
}

}  // namespace lockstep::sim
