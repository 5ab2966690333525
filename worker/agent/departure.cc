#include "worker/agent/departure.h"

#include <utility>

namespace lockstep::agent {
namespace {

constexpr Duration kLook = milliseconds(5);

}  // namespace

Departure::Departure(EventLoop* loop, std::function<Hold()> hold, std::function<void()> go,
                     Duration patience)
    : hold_(std::move(hold)),
      go_(std::move(go)),
      patience_(patience),
      timer_(loop, [this] { Check(); }) {}

bool Departure::Begin(const core::ExitAgent& exit) {
  if (exit_) return false;
  exit_ = exit;
  limit_ = BootTime() + patience_;
  return true;
}

void Departure::Check() {
  if (!exit_ || gone_) return;
  const Hold hold = hold_();
  if (hold != Hold::kNone && BootTime() < limit_) {
    timer_.WakeAt(hold == Hold::kEvents ? limit_ : BootTime() + kLook);
    return;
  }
  gone_ = true;
  go_();
}

}  // namespace lockstep::agent
