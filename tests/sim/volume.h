// Volume: the shared checkpoint volume. Every operation takes time; a rename that was issued lands
// even after its process has died, as it does on a network file system. What comes from the
// machines' memory is laid there part by part, each of which is there whole or not at all, as
// worker/agent writes files.
#ifndef LOCKSTEP_TESTS_SIM_VOLUME_H_
#define LOCKSTEP_TESTS_SIM_VOLUME_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "core/gang/coordinator/coordinator.h"
#include "core/gang/protocol/resume.h"

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

  // ---- from memory ----
  // A machine's part of `id` has come to the folder of what is to be commit `to`.
  void Lay(core::CheckpointId to, core::CheckpointId id, uint32_t machine);
  // All such folders but that one.
  void RemoveUnfinished(core::CheckpointId to, core::CheckpointId id);
  // `done` is told "", or why the folder has not become the commit.
  void Finish(const core::FinishPersisting& action, std::function<void(std::string)> done);
  // The commit whose state the checkpoint of this path is.
  core::CheckpointId OriginOf(const std::string& path) const;
  // The same for one that came back to memory from there.
  core::CheckpointId OriginOf(core::CheckpointId id) const;
  // What the next generation would resume from.
  std::string Newest() const;

  // A checkpoint in memory is on no volume, yet has a step.
  void Remember(const std::string& path, int64_t step) { steps_[path] = step; }
  // From here on the commit is in memory, too. False: it is not on the volume.
  bool Recall(core::CheckpointId id);
  // The step that training goes on from; 0 for "".
  int64_t StepOf(const std::string& path) const;
  core::Generation Highest() const;

  void Slow(Duration most, Duration duration);
  Duration Latency();

 private:
  void Create(core::Generation generation, const std::string& resume, const Done& done);
  std::string Place(const core::FinishPersisting& action);

  World& world_;
  std::vector<core::GenerationFile> files_;
  std::vector<core::CheckpointEntry> checkpoints_;  // in the order in which they were completed
  std::map<std::string, int64_t> steps_;
  std::map<std::string, core::CheckpointId> origins_;  // of those that came from memory
  // On their way from memory: the machines whose parts are there. By the generation that writes
  // them, and what they are.
  std::map<std::pair<core::Generation, core::CheckpointId>, std::set<uint32_t>> unfinished_;
  Duration slow_{};
  Time slow_until_{};
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_VOLUME_H_
