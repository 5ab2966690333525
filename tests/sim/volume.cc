#include "tests/sim/volume.h"

#include <algorithm>
#include <utility>

#include "tests/sim/world.h"

namespace lockstep::sim {

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
  if (exists) prepared.error = "the generation's file exists";
  done(std::move(prepared));
}

void Volume::Rename(core::Generation generation, uint32_t number, int64_t step, Duration late) {
  world_.queue().After(late + Latency(), [this, generation, number, step] {
    std::string path = generation.ToString() + "/" + std::to_string(number);
    world_.Log("volume: checkpoint ", path, " of step ", step, " is complete");
    checkpoints_.push_back({generation, number, path});
    steps_[path] = step;
    world_.invariants().OnComplete(generation, path, step);
  });
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
