#include "core/gang/coordinator/alone_ranks.h"

#include <algorithm>
#include <utility>

#include "base/text/duration.h"
#include "core/gang/diagnosis/root_cause.h"
#include "core/gang/protocol/rules.h"

namespace lockstep::core {

void AloneRanks::Begin(Generation generation) {
  generation_ = generation;
  ranks_.clear();
  last_death_ = Time::min();
}

AloneRanks::Answer AloneRanks::OnDeath(Time now, const Roster::Slot& slot, Failure death,
                                       Time began) {
  const auto rank = static_cast<uint32_t>(death.rank);
  // Its member may be mistaken.
  const bool of_a_process = death.cause == Cause::kProcessExit ||
                            death.cause == Cause::kProcessSignal ||
                            death.cause == Cause::kOutOfMemory;
  if (death.rank < 0 || rank / config_.processes != slot.machine || !of_a_process) {
    return Answer::kRunOn;
  }
  if (std::ranges::find(config_.ranks, rank) == config_.ranks.end()) return Answer::kRunOn;
  const auto [found, is_first] = ranks_.try_emplace(rank);
  Rank& alone = found->second;
  if (!is_first && alone.died == death.at) {
    // What we answered may have been lost with a connection.
    if (alone.due == kNever) Start(rank);
    return Answer::kRunOn;
  }
  if (is_first) alone.began = began;
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
  const FailureDecision decision = DecideFailure(policy_, context);
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
    return Answer::kStop;
  }
  uncharged_.push_back(std::move(uncharged));
  return Answer::kRunOn;
}

void AloneRanks::BringBack(Time now, FailureContext context, const FailureDecision& decision) {
  Failure& death = context.failure;
  Rank& alone = ranks_.at(static_cast<uint32_t>(death.rank));
  ++counters_.alone;
  alone.held = false;
  alone.short_lives = context.lived < kShortLife ? alone.short_lives + 1 : 0;
  alone.due = now + decision.backoff;
  last_death_ = now;
  outbox_.Change();
  death.message = Describe(death, config_.names) + "; it alone is started again";
  if (decision.backoff > Duration::zero()) {
    death.message += " in " + FormatDuration(decision.backoff);
  }
  death.message += ", " + decision.reason;
  outbox_.Log("generation " + generation_.ToString() + " runs on: " + death.message);
  failure_ = std::move(death);
}

bool AloneRanks::AskWhetherAlive(Time now, const std::function<Time()>& stamp) {
  bool ask = false;
  for (Uncharged& each : uncharged_) {
    if (each.asked != kNever || now < each.settled) continue;
    each.asked = stamp();
    ask = true;
  }
  return ask;
}

AloneRanks::Answer AloneRanks::ChargeSettled(Time now,
                                             const std::function<bool(Time stamp)>& answered) {
  while (!uncharged_.empty() && answered(uncharged_.front().asked)) {
    Uncharged own = std::move(uncharged_.front());
    uncharged_.erase(uncharged_.begin());
    if (own.held) {
      own.held->application_failures_used = counters_.application_used();
      const FailureDecision decision = DecideFailure(policy_, *own.held);
      if (decision.action != FailureAction::kRestart) {
        ranks_.at(own.rank).escalated = true;
        return Answer::kStop;
      }
      BringBack(now, *std::move(own.held), decision);
    }
    Charge();
  }
  return Answer::kRunOn;
}

void AloneRanks::Charge() {
  if (Holds(Rule::kAloneIsCharged)) ++counters_.process_failures;
  outbox_.Change();
}

void AloneRanks::ChargeAll() {
  for (const Uncharged& each : std::exchange(uncharged_, {})) {
    if (!each.held) Charge();
  }
}

void AloneRanks::StartDue(Time now) {
  for (auto& [rank, alone] : ranks_) {
    if (now < alone.due) continue;
    alone.due = kNever;
    alone.began = now;
    Start(rank);
  }
}

void AloneRanks::Start(uint32_t rank) {
  const Rank& alone = ranks_.at(rank);
  if (alone.held || alone.escalated) return;
  outbox_.Send(roster_[rank / config_.processes], StartAgain{generation_, rank, alone.died});
}

bool AloneRanks::escalated(uint32_t rank) const {
  const auto found = ranks_.find(rank);
  return found != ranks_.end() && found->second.escalated;
}

Time AloneRanks::NextWake(bool settling) const {
  Time wake = kNever;
  for (const auto& [rank, alone] : ranks_) wake = std::min(wake, alone.due);
  for (const Uncharged& each : uncharged_) {
    if (!settling && each.asked == kNever) wake = std::min(wake, each.settled);
  }
  return wake;
}

}  // namespace lockstep::core
