// How a generation ends on a machine: what of it is killed, and what lives on into the next one.
#include <algorithm>
#include <utility>

#include "core/gang/member/member.h"
#include "core/gang/protocol/rules.h"

namespace lockstep::core {

namespace {

// How long a rank may take to leave a generation that has ended: its connections abort at once, but
// it may compute, or write what will not be committed.
constexpr Duration kLeavePatience = seconds(5);

}  // namespace

void Member::StopRanks(Time now, Time kill_at, bool keep, bool sure) {
  if (!HasRanks() && phase() != MemberPhase::kFinished) return;
  if (rejoin_.keeping && !keep) {
    // They have no part in a generation in which they could save anything.
    rejoin_.ranks.clear();
    rejoin_.left.clear();
    rejoin_.until = kNever;
    return EndStop(now);
  }
  if (stopping_.signalled && (rejoin_.keeping || kill_at >= stopping_.kill_at)) return;
  // What was told to go has not been asked to leave.
  rejoin_.keeping = keep && !drain_.begun && !stopping_.signalled && !rejoin_.ranks.empty();
  if (!stopping_.signalled) ReportOpenMetrics(now);
  stopping_.signalled = true;
  stopping_.evidence_until = kNever;
  stopping_.kill_at = kill_at;
  report_.phase = MemberPhase::kStopping;
  stopping_.others_dead = false;
  if (rejoin_.keeping) rejoin_.until = std::max(now + kLeavePatience, kill_at);
  if (rejoin_.keeping || kill_at <= now) RefuseCommits("the generation is stopping");
  actions_.emplace_back(StopProcesses{
      report_.generation, kill_at, rejoin_.keeping ? rejoin_.ranks : std::set<uint32_t>(), sure});
}

// The coordinator must know the first bad step, whatever ended the generation. As no root cause:
// not by itself. One, so that places are left for deaths that are seen later.
void Member::ReportOpenMetrics(Time now) {
  std::vector<Failure> open = metrics_.Open();
  const auto first = std::ranges::min_element(open, {}, &Failure::step);
  if (first == open.end() || report_.deaths.size() >= kMaxDeathsInReport) return;
  first->at = now;
  report_.deaths.push_back(std::move(*first));
}

MemberActions Member::OnAllDead(Time now, Generation generation) {
  Begin(now);
  if (generation == report_.generation && phase() == MemberPhase::kStopping) {
    stopping_.others_dead = true;
    CheckStopped(now);
  }
  return Take();
}

void Member::CheckStopped(Time now) {
  if (phase() != MemberPhase::kStopping || !stopping_.others_dead) return;
  if (rejoin_.keeping && rejoin_.left != rejoin_.ranks && Holds(Rule::kKeptHaveLeft)) return;
  report_.phase = MemberPhase::kStopped;
  rejoin_.until = kNever;
  report_.kept.clear();  // those that came into this generation
  if (rejoin_.keeping) report_.kept.assign(rejoin_.ranks.begin(), rejoin_.ranks.end());
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
  } else if (MayHaveLiveRanks(phase()) && !stopping_.signalled) {
    rejoin_.ranks.insert(rank);
  }
  return Take();
}

MemberActions Member::OnLeft(Time now, Generation generation, uint32_t rank) {
  Begin(now);
  if (generation == report_.generation && rejoin_.keeping && rejoin_.ranks.contains(rank)) {
    rejoin_.left.insert(rank);
    CheckStopped(now);
  }
  return Take();
}

void Member::SpareNoMore(uint32_t rank) {
  rejoin_.left.erase(rank);
  if (rejoin_.ranks.erase(rank) > 0 && rejoin_.keeping) EndStop(stopping_.kill_at);
}

// A spared rank that has not left in time is killed, like any other.
void Member::EndKeeping(Time now) {
  rejoin_.until = kNever;
  if (!Holds(Rule::kKeptHaveLeft)) return;
  if (std::exchange(rejoin_.ranks, rejoin_.left) != rejoin_.left) EndStop(now);
}

// Ranks that are not spared are killed at once, or when their grace period is over.
void Member::EndStop(Time kill_at) {
  report_.phase = MemberPhase::kStopping;
  report_.kept.clear();
  rejoin_.keeping = !rejoin_.ranks.empty();
  stopping_.others_dead = false;
  stopping_.kill_at = std::min(stopping_.kill_at, kill_at);
  SendReport();
  actions_.emplace_back(StopProcesses{report_.generation, stopping_.kill_at, rejoin_.ranks});
}

}  // namespace lockstep::core
