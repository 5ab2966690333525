// Training: what the ranks of a generation do together. A step is a collective: it takes all of
// them, alive and in reach of each other. Rank 0 asks for commits; after the last step every rank
// exits 0. The state of the training is the step and the line of checkpoints that led to it.
#ifndef LOCKSTEP_TESTS_SIM_TRAINING_H_
#define LOCKSTEP_TESTS_SIM_TRAINING_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/gang/protocol/messages.h"
#include "tests/sim/network.h"

namespace lockstep::sim {

class World;

class Training {
 public:
  explicit Training(World& world) : world_(world) {}

  void OnExec(Node node, uint32_t pid, const core::Start& start, uint32_t rank,
              const std::string& resume);
  // `well`: exit code 0 after the last step.
  void OnEnd(core::Generation generation, uint32_t rank, bool well);
  void OnCommitAnswered(core::Generation generation, bool granted, uint32_t number);
  void OnMemoryCommitAnswered(core::Generation generation, const std::string& name,
                              uint32_t number);
  void Hang() { hung_ = current_; }

  // Every rank that decides ran to its last step and exited 0.
  bool Succeeded(core::Generation generation) const;
  // When a commit was asked for: the last one on disk, or in memory the last one of this name, by
  // the last machine.
  Time CommitRequested(core::Generation generation, const std::string& memory_name) const;
  void set_rename_late(Duration late) { rename_late_ = late; }

 private:
  struct Rank {
    Node node = 0;
    uint32_t pid = 0;
    bool alive = false;
    bool well = false;
    bool executed = false;  // once, at least
  };
  struct Run {
    core::Generation generation;
    std::vector<Rank> ranks;
    uint32_t execs = 0;
    int64_t step = 0;
    int64_t committing = 0;   // the step in question; 0: none
    size_t memory_asked = 0;  // machines whose commit in memory is not answered
    Time requested = Time::min();
    std::map<std::string, Time> memory_requested;  // by name
    bool reported = false;                         // some step was
    bool over = false;
  };

  Run* Find(core::Generation generation);
  const Run* Find(core::Generation generation) const;
  void Step(core::Generation generation);
  void FailPeers(const Run& run);
  // Whether the others wait for it, should it have ended.
  bool ComesAgain(const Run& run, uint32_t rank) const;
  void Finish(const Run& run, uint32_t rank);
  bool Connected(const Run& run) const;
  // Whether the success of the job hangs on it.
  bool Decides(size_t rank) const;

  World& world_;
  std::deque<Run> runs_;
  core::Generation current_;
  core::Generation hung_;
  Duration rename_late_{};
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_TRAINING_H_
