// Goodput: where a job's time goes. Every second since the coordinator was born belongs to exactly
// one state, so the six add up to the time that passed, and none of them ever falls.
//
// Steps say what is worth something: a step that no earlier generation did is productive; one that
// is done again, because its result died with its generation, is lost. Time is judged when it
// passes, never afterwards. While ranks run and no step was ever reported, the use of the time is
// unknown. A coordinator knows of the steps it heard of itself, not of those before its birth.
#ifndef LOCKSTEP_WORKER_AGENT_METRICS_METRICS_GOODPUT_H_
#define LOCKSTEP_WORKER_AGENT_METRICS_METRICS_GOODPUT_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"
#include "core/gang/coordinator/coordinator.h"

namespace lockstep::agent {

enum class GoodputState : uint8_t {
  kProductive,  // steps that were never done before
  kUnknown,     // ranks run, and no step was ever reported
  kLost,        // steps that are done again
  kRestart,     // from the first signal of a generation's end to the next one's first step, less
                // what was spent waiting
  kWaiting,     // for machines, a backoff, an old lease to run out, or a suspended job's return
  kCheckpoint,  // from a process's request to commit to its answer
};
inline constexpr size_t kGoodputStates = 6;
const char* ToString(GoodputState state);  // "productive", ...: the label `state`

using GoodputDurations = std::array<Duration, kGoodputStates>;  // by GoodputState

// Pure: time comes in with each event and never goes back.
class Goodput {
 public:
  explicit Goodput(Time born) : since_(born) {}

  void OnPhase(Time now, core::CoordinatorPhase phase);
  // Some rank of the running generation has done `step`.
  void OnStep(Time now, int64_t step);
  // A request to commit came in, or was answered (granted or not).
  void OnCommitAsked(Time now);
  void OnCommitAnswered(Time now);

  GoodputState state() const;
  GoodputDurations At(Time now) const;
  // Steps that were done and had to be done again; told at each generation's first reported step.
  int64_t lost_steps() const { return lost_steps_; }

 private:
  void Advance(Time now);
  bool over() const {
    return phase_ == core::CoordinatorPhase::kVerdict || phase_ == core::CoordinatorPhase::kDone;
  }

  Time since_;
  core::CoordinatorPhase phase_ = core::CoordinatorPhase::kGathering;
  GoodputDurations durations_{};
  int open_commits_ = 0;
  bool stepped_ = false;  // in this generation
  int64_t step_ = 0;      // the highest of this generation
  int64_t furthest_ = 0;  // the highest of all; 0: no step was ever reported
  int64_t lost_steps_ = 0;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_METRICS_METRICS_GOODPUT_H_
