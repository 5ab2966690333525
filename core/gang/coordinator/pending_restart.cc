#include "core/gang/coordinator/pending_restart.h"

namespace lockstep::core {
namespace {

constexpr Duration kCommitSettle = seconds(1);

}  // namespace

bool PendingRestart::Take(const std::optional<DesiredState::Restart>& restart, uint32_t mine) {
  if (!restart || restart->attempt != mine || restart->id == done_) {
    Drop();
    return false;
  }
  asked_ = restart;
  return true;
}

void PendingRestart::Drop() {
  asked_.reset();
  due_ = kNever;
}

void PendingRestart::OnCommitGranted(Time now) {
  if (asked_ && due_ == kNever) due_ = now + kCommitSettle;
}

bool PendingRestart::Finish() {
  if (!asked_) return false;
  done_ = asked_->id;
  Drop();
  return true;
}

}  // namespace lockstep::core
