// Ranks whose death is theirs alone: each is started again while the others run on, out of the same
// budget and with the same waits as a gang. What the policy answers with anything but a restart
// ends the generation, as any other rank's death does.
#include <algorithm>
#include <utility>

#include "base/text/duration.h"
#include "core/gang/coordinator.h"
#include "core/gang/rules.h"

namespace lockstep::core {
namespace {

constexpr size_t kMostCharged = 256;  // remembered of a generation

}  // namespace

void Coordinator::LearnAlone(Time now, const Slot& slot, Failure death) {
  const auto rank = static_cast<uint32_t>(death.rank);
  if (!Live()) return;
  // Its member may be mistaken.
  const bool of_a_process = death.cause == Cause::kProcessExit ||
                            death.cause == Cause::kProcessSignal ||
                            death.cause == Cause::kOutOfMemory;
  if (death.rank < 0 || rank / config_.processes != slot.machine || !of_a_process) return;
  if (std::ranges::find(config_.alone, rank) == config_.alone.end()) return;
  const auto [found, is_first] = alone_.try_emplace(rank);
  Alone& alone = found->second;
  if (!is_first && alone.died == death.at) {
    // What we answered may have been lost with a connection.
    if (alone.due == kNever) StartRankAgain(rank);
    return;
  }
  if (is_first) alone.began = Record().spawned.value_or(*Record().announced);
  alone.died = death.at;
  death.machine = static_cast<int>(slot.machine);

  FailureContext context;
  context.failure = death;
  context.application_failures_used = counters_.application_used();
  context.machine_failures_used = counters_.infrastructure_used();
  context.lived = now - alone.began;
  context.first_step_seen = true;  // no EarlyCrash: programs with roles often report no steps
  context.short_lives = alone.short_lives;
  const FailureDecision decision = DecideFailure(config_.policy, context);
  if (decision.action != FailureAction::kRestart) {
    alone.escalated = true;
    return BeginStop(now, StopReason::kFailure, config_.policy.restart_grace_period);
  }
  if (Holds(Rule::kAloneIsCharged)) {
    ++counters_.process_failures;
    if (alone_charged_.size() == kMostCharged) alone_charged_.erase(alone_charged_.begin());
    alone_charged_.push_back(now);
  }
  ++counters_.alone;
  alone.short_lives = context.lived < kShortLife ? alone.short_lives + 1 : 0;
  alone.due = now + decision.backoff;
  last_alone_ = now;
  ++version_;
  last_failure_ = std::move(death);
  last_failure_.message = Describe(last_failure_, false) + "; it alone is started again";
  if (decision.backoff > Duration::zero()) {
    last_failure_.message += " in " + FormatDuration(decision.backoff);
  }
  last_failure_.message += ", " + decision.reason;
  Log("generation " + generation_.ToString() + " runs on: " + last_failure_.message);
}

// Ranks whose peer died end as well, and before we hear of it; a machine is lost long before.
void Coordinator::TakeBackCharges(const Failure& root) {
  const auto found = alone_.find(static_cast<uint32_t>(root.rank));
  if (root.rank >= 0 && found != alone_.end() && found->second.escalated) return;
  Time since = root.at;
  if (since == kNever && root.machine >= 0) {
    since = roster_[static_cast<size_t>(root.machine)].lost_at.value_or(kNever);
  }
  if (since == kNever) return;
  const auto followed = std::ranges::count_if(
      alone_charged_, [since](Time charged) { return charged >= since - kSettle; });
  counters_.process_failures_base += static_cast<uint32_t>(followed);
}

void Coordinator::CheckAlone(Time now) {
  if (!Live()) return;
  for (auto& [rank, alone] : alone_) {
    if (now < alone.due) continue;
    alone.due = kNever;
    alone.began = now;
    StartRankAgain(rank);
  }
}

void Coordinator::StartRankAgain(uint32_t rank) {
  const Alone& alone = alone_.at(rank);
  if (!alone.escalated) {
    Send(roster_[rank / config_.processes], StartAgain{generation_, rank, alone.died});
  }
}

}  // namespace lockstep::core
