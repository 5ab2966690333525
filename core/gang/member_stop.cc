// How a generation ends on a machine: what of it is killed, and what lives on into the next one.
#include <algorithm>
#include <utility>

#include "core/gang/member.h"
#include "core/gang/rules.h"

namespace lockstep::core {

namespace {

// How long a rank may take to leave a generation that has ended: its connections abort at once, but
// it may compute, or write what will not be committed.
constexpr Duration kLeavePatience = seconds(5);

}  // namespace

void Member::StopRanks(Time now, Time kill_at, bool keep) {
  if (!HasRanks() && phase() != MemberPhase::kFinished) return;
  if (keeping_ && !keep) {
    // They have no part in a generation in which they could save anything.
    rejoin_.clear();
    left_.clear();
    keep_until_ = kNever;
    return EndStop(now);
  }
  if (signalled_ && (keeping_ || kill_at >= kill_at_)) return;
  // What was told to go has not been asked to leave.
  keeping_ = keep && !draining_ && !signalled_ && !rejoin_.empty();
  signalled_ = true;
  evidence_until_ = kNever;
  kill_at_ = kill_at;
  report_.phase = MemberPhase::kStopping;
  others_dead_ = false;
  if (keeping_) keep_until_ = std::max(now + kLeavePatience, kill_at);
  if (keeping_ || kill_at <= now) RefuseCommits("the generation is stopping");
  actions_.emplace_back(
      StopProcesses{report_.generation, kill_at, keeping_ ? rejoin_ : std::set<uint32_t>()});
}

MemberActions Member::OnAllDead(Time now, Generation generation) {
  Begin(now);
  if (generation == report_.generation && phase() == MemberPhase::kStopping) {
    others_dead_ = true;
    CheckStopped(now);
  }
  return Take();
}

void Member::CheckStopped(Time now) {
  if (phase() != MemberPhase::kStopping || !others_dead_) return;
  if (keeping_ && left_ != rejoin_ && Holds(Rule::kKeptHaveLeft)) return;
  report_.phase = MemberPhase::kStopped;
  keep_until_ = kNever;
  report_.kept.clear();  // those that came into this generation
  if (keeping_) report_.kept.assign(rejoin_.begin(), rejoin_.end());
  RefuseCommits("the generation has ended");
  SendReport();
  if (refused_ > report_.generation) {
    report_ = Report(refused_, MemberPhase::kStopped);
    SendReport();
  }
  CheckDrain(now);
}

MemberActions Member::OnRejoins(Time now, Generation generation, uint32_t rank, bool can) {
  Begin(now);
  if (generation != report_.generation) return Take();
  if (!can) {
    SpareNoMore(rank);
  } else if (MayHaveLiveRanks(phase()) && !signalled_) {
    rejoin_.insert(rank);
  }
  return Take();
}

MemberActions Member::OnLeft(Time now, Generation generation, uint32_t rank) {
  Begin(now);
  if (generation == report_.generation && keeping_ && rejoin_.contains(rank)) {
    left_.insert(rank);
    CheckStopped(now);
  }
  return Take();
}

void Member::SpareNoMore(uint32_t rank) {
  left_.erase(rank);
  if (rejoin_.erase(rank) > 0 && keeping_) EndStop(kill_at_);
}

// Who has not left in time is killed, as any other.
void Member::EndKeeping(Time now) {
  keep_until_ = kNever;
  if (!Holds(Rule::kKeptHaveLeft)) return;
  if (std::exchange(rejoin_, left_) != left_) EndStop(now);
}

// What is not spared is killed at once, or when its grace period is over.
void Member::EndStop(Time kill_at) {
  report_.phase = MemberPhase::kStopping;
  report_.kept.clear();
  keeping_ = !rejoin_.empty();
  others_dead_ = false;
  kill_at_ = std::min(kill_at_, kill_at);
  SendReport();
  actions_.emplace_back(StopProcesses{report_.generation, kill_at_, rejoin_});
}

}  // namespace lockstep::core
