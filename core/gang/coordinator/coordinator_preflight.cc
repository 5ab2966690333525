// Preflight: machines are measured before a rank runs on them, and slow ones are replaced.
#include <algorithm>
#include <utility>

#include "core/gang/coordinator/coordinator.h"

namespace lockstep::core {

PreflightRounds::Attempts Coordinator::Attempts() const {
  PreflightRounds::Attempts attempts;
  for (const Slot& slot : roster_) attempts.push_back(slot.present() ? slot.attempt : 0);
  return attempts;
}

void Coordinator::Handle(Time, Slot& slot, const Measured& measured) {
  if (preflight_) preflight_->OnMeasured(slot.machine, measured);
}

bool Coordinator::PassedPreflight(Time now) {
  if (!preflight_) return true;
  const bool measured_before = preflight_->measuring();
  for (PreflightRounds::Ask& ask : preflight_->Step(now, Attempts())) {
    Send(roster_[ask.machine], std::move(ask.measure));
  }
  if (preflight_->measuring() != measured_before) outbox_.Change();
  if (measured_before && !preflight_->measuring()) LogFigures();
  for (SlowMachine& slow : preflight_->TakeFound()) {
    Slot& slot = roster_[slow.machine];
    Log("preflight: machine " + std::to_string(slow.machine) + " is slow, and " +
        (slow.replaced ? "to be replaced: " : "the job continues with it: ") + slow.because);
    slot.replace |= slow.replaced;
    if (slow.replaced) slot.slow = std::move(slow.because);
    outbox_.Change();
  }
  if (!preflight_->failure().empty()) {
    FailAsMisconfigured(now, -1, preflight_->failure());
    return false;
  }
  return preflight_->Knows(Attempts());
}

void Coordinator::LogFigures() {
  std::string table = FigureTable(preflight_->figures());
  while (!table.empty()) {
    const size_t end = std::min(table.find('\n'), table.size() - 1);
    Log("preflight: " + table.substr(0, end));
    table.erase(0, end + 1);
  }
}

std::optional<PreflightStatus> Coordinator::preflight() const {
  if (!preflight_) return std::nullopt;
  return preflight_->status(Attempts());
}

}  // namespace lockstep::core
