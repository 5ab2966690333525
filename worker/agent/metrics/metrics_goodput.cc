#include "worker/agent/metrics/metrics_goodput.h"

#include <algorithm>

namespace lockstep::agent {

using core::CoordinatorPhase;

const char* ToString(GoodputState state) {
  switch (state) {
    case GoodputState::kProductive:
      return "productive";
    case GoodputState::kUnknown:
      return "unknown";
    case GoodputState::kLost:
      return "lost";
    case GoodputState::kRestart:
      return "restart";
    case GoodputState::kWaiting:
      return "waiting";
    case GoodputState::kCheckpoint:
      return "checkpoint";
  }
  return "";
}

void Goodput::OnPhase(Time now, CoordinatorPhase phase) {
  Advance(now);
  phase_ = phase;
  if (phase == CoordinatorPhase::kStarting || phase == CoordinatorPhase::kRunning) return;
  // Between two generations: the coordinator has answered every open request.
  stepped_ = false;
  step_ = 0;
  open_commits_ = 0;
}

void Goodput::OnStep(Time now, int64_t step) {
  Advance(now);
  if (step <= 0) return;
  if (!stepped_ && step <= furthest_) lost_steps_ += furthest_ - step + 1;
  stepped_ = true;
  step_ = std::max(step_, step);
  furthest_ = std::max(furthest_, step);
}

void Goodput::OnCommitAsked(Time now) {
  Advance(now);
  ++open_commits_;
}

void Goodput::OnCommitAnswered(Time now) {
  Advance(now);
  open_commits_ = std::max(open_commits_ - 1, 0);
}

GoodputState Goodput::state() const {
  switch (phase_) {
    case CoordinatorPhase::kGathering:
    case CoordinatorPhase::kFencing:
    case CoordinatorPhase::kBackoff:
    case CoordinatorPhase::kHeld:
    case CoordinatorPhase::kVerdict:
    case CoordinatorPhase::kDone:
      return GoodputState::kWaiting;
    case CoordinatorPhase::kPreparing:
    case CoordinatorPhase::kStarting:
    case CoordinatorPhase::kStopping:
      return GoodputState::kRestart;
    case CoordinatorPhase::kRunning:
      break;
  }
  if (open_commits_ > 0) return GoodputState::kCheckpoint;
  if (furthest_ == 0) return GoodputState::kUnknown;
  if (!stepped_) return GoodputState::kRestart;
  return step_ < furthest_ ? GoodputState::kLost : GoodputState::kProductive;
}

GoodputDurations Goodput::At(Time now) const {
  GoodputDurations durations = durations_;
  if (!over() && now > since_) durations[static_cast<size_t>(state())] += now - since_;
  return durations;
}

void Goodput::Advance(Time now) {
  durations_ = At(now);
  since_ = std::max(since_, now);
}

}  // namespace lockstep::agent
