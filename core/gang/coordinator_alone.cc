// Ranks whose death is theirs alone: each is started again while the others run on, out of the same
// budget and with the same waits as a gang. What the policy answers with anything but a restart
// ends the generation, as any other rank's death does.
//
// A rank that lost a peer ends as well, and may be heard of first. So a death is charged, and the
// budget's end is one, only when it is known that the gang goes on; a start does not wait for that.
#include <algorithm>
#include <utility>

#include "base/text/duration.h"
#include "core/gang/coordinator.h"
#include "core/gang/rules.h"

namespace lockstep::core {

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
  context.failure = std::move(death);
  context.application_failures_used =
      counters_.application_used() + static_cast<int>(uncharged_.size());
  context.machine_failures_used = counters_.infrastructure_used();
  context.lived = now - alone.began;
  context.first_step_seen = true;  // no EarlyCrash: programs with roles often report no steps
  context.short_lives = alone.short_lives;
  const FailureDecision decision = DecideFailure(config_.policy, context);
  Uncharged uncharged;
  uncharged.rank = rank;
  uncharged.settled = now + kSettle;
  if (decision.action == FailureAction::kRestart) {
    BringBack(now, std::move(context), decision);
  } else if (decision.cause == Cause::kRestartsExhausted) {
    alone.held = true;
    uncharged.held = std::move(context);
  } else {
    alone.escalated = true;
    return BeginStop(now, StopReason::kFailure, config_.policy.restart_grace_period);
  }
  uncharged_.push_back(std::move(uncharged));
}

void Coordinator::BringBack(Time now, FailureContext context, const FailureDecision& decision) {
  Failure& death = context.failure;
  Alone& alone = alone_.at(static_cast<uint32_t>(death.rank));
  ++counters_.alone;
  alone.held = false;
  alone.short_lives = context.lived < kShortLife ? alone.short_lives + 1 : 0;
  alone.due = now + decision.backoff;
  last_alone_ = now;
  outbox_.Change();
  last_failure_ = std::move(death);
  last_failure_.message = Describe(last_failure_, config_.names) + "; it alone is started again";
  if (decision.backoff > Duration::zero()) {
    last_failure_.message += " in " + FormatDuration(decision.backoff);
  }
  last_failure_.message += ", " + decision.reason;
  Log("generation " + generation_.ToString() + " runs on: " + last_failure_.message);
}

void Coordinator::CheckCharges(Time now) {
  // A process has ended that lost a peer; the gang will, too.
  if (settled_at_ != kNever) return;
  bool ask = false;
  for (Uncharged& each : uncharged_) {
    if (each.asked != kNever || now < each.settled) continue;
    each.asked = lease_.Stamp(now);
    ask = true;
  }
  if (ask) PingAll(now);
  while (!uncharged_.empty() && AllAnsweredSince(uncharged_.front().asked)) {
    Uncharged own = std::move(uncharged_.front());
    uncharged_.erase(uncharged_.begin());
    if (own.held) {
      own.held->application_failures_used = counters_.application_used();
      const FailureDecision decision = DecideFailure(config_.policy, *own.held);
      if (decision.action != FailureAction::kRestart) {
        alone_.at(own.rank).escalated = true;
        return BeginStop(now, StopReason::kFailure, config_.policy.restart_grace_period);
      }
      BringBack(now, *std::move(own.held), decision);
    }
    Charge();
  }
}

void Coordinator::Charge() {
  if (Holds(Rule::kAloneIsCharged)) ++counters_.process_failures;
  outbox_.Change();
}

void Coordinator::ChargeAlone() {
  for (const Uncharged& each : std::exchange(uncharged_, {})) {
    if (!each.held) Charge();
  }
}

void Coordinator::CheckAlone(Time now) {
  if (Live()) CheckCharges(now);
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
  if (alone.held || alone.escalated) return;
  Send(roster_[rank / config_.processes], StartAgain{generation_, rank, alone.died});
}

}  // namespace lockstep::core
