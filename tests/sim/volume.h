// Volume: the shared checkpoint volume. Every operation takes time; a rename that was issued lands
// even after its process has died, as it does on a network file system.
#ifndef LOCKSTEP_TESTS_SIM_VOLUME_H_
#define LOCKSTEP_TESTS_SIM_VOLUME_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/gang/coordinator.h"
#include "core/gang/resume.h"

namespace lockstep::sim {

class World;

class Volume {
 public:
  explicit Volume(World& world) : world_(world) {}

  // Lists, chooses and creates `generations/<generation>`; then says what it resumes from, or which
  // attempt was there before.
  using Done = std::function<void(core::Prepared)>;
  void Prepare(core::Generation generation, Done done);
  void Rename(core::Generation generation, uint32_t number, int64_t step, Duration late);

  // A checkpoint in memory is on no volume, yet has a step.
  void Remember(const std::string& path, int64_t step) { steps_[path] = step; }
  // The step that training goes on from; 0 for "".
  int64_t StepOf(const std::string& path) const;
  core::Generation Highest() const;

  void Slow(Duration most, Duration duration);

 private:
  Duration Latency();
  void Create(core::Generation generation, const std::string& resume, const Done& done);

  World& world_;
  std::vector<core::GenerationFile> files_;
  std::vector<core::CheckpointEntry> checkpoints_;  // in the order in which they were completed
  std::map<std::string, int64_t> steps_;
  Duration slow_{};
  Time slow_until_{};
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_VOLUME_H_
