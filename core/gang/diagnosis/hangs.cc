#include "core/gang/diagnosis/hangs.h"

#include <algorithm>
#include <utility>

#include "core/gang/diagnosis/whereabouts.h"

namespace lockstep::core {

GangStep StepOf(const std::map<uint32_t, RankProgress>& ranks, bool output_counts) {
  const bool reported = std::ranges::any_of(
      ranks, [](const auto& each) { return each.second.source == StepSource::kReports; });
  GangStep gang{.counts = reported || output_counts};
  bool first = true;
  for (const auto& [number, rank] : ranks) {
    if (reported && rank.source != StepSource::kReports) continue;
    gang.step = first ? rank.step : std::min(gang.step, rank.step);
    gang.total = std::max(gang.total, rank.total_steps);
    first = false;
  }
  return gang;
}

void HangFinder::Begin(const Members& members) {
  members_ = members;
  pace_.reset();
  machines_.clear();
  worked_at_ = heard_at_ = Time::min();
  Forget();
}

void HangFinder::Forget() {
  suspected_.reset();
  found_.reset();
  show_at_ = kNever;
  places_.clear();
  looked_.clear();
}

void HangFinder::OnStep(Time now, const GangStep& gang) {
  const bool at_the_end = gang.total > 0 && gang.step >= gang.total;
  if (gang.step <= 0 || at_the_end) {
    pace_.reset();
    return Forget();
  }
  if (!pace_ || gang.step < pace_->step) {
    pace_ = Pace{.step = gang.step, .moved_at = now};
    Forget();
  }
  pace_->counts = gang.counts;
  if (gang.step == pace_->step) return;
  pace_->longest_gap = std::max<Duration>(pace_->longest_gap, now - pace_->moved_at);
  pace_->step = gang.step;
  pace_->moved_at = now;
  ++pace_->changes;
  Forget();
}

void HangFinder::OnActivity(Time now, uint32_t machine, const RankActivity& activity) {
  if (!members_.Contains(machine)) return;
  machines_[machine] = {now, activity};
  heard_at_ = now;
  if (activity.working > 0) worked_at_ = now;
}

void HangFinder::OnPlaces(uint32_t machine, const std::vector<Whereabouts>& places) {
  if (!suspected_ || found_ || !members_.Contains(machine)) return;
  if (!looked_.insert(machine).second) return;
  places_.insert(places_.end(), places.begin(), places.end());
  if (looked_.size() == members_.size()) show_at_ = Time::min();
}

GangActivity HangFinder::ActivityAt(Time now) const {
  bool some = false;
  bool all = true;
  for (const uint32_t machine : members_) {
    const auto found = machines_.find(machine);
    if (found == machines_.end() || now - found->second.at > kFresh) return GangActivity::kUnknown;
    const RankActivity& activity = found->second.activity;
    if (activity.ranks == 0 || activity.unknown > 0) return GangActivity::kUnknown;
    some = some || activity.working > 0;
    all = all && activity.working >= activity.ranks;
  }
  if (members_.empty()) return GangActivity::kUnknown;
  if (!some) return GangActivity::kQuiet;
  return all ? GangActivity::kAllWork : GangActivity::kSomeWork;
}

Duration HangFinder::Limit(Duration shortest, int gaps) const {
  return std::max<Duration>(shortest, pace_->longest_gap * gaps);
}

HangFinder::Due HangFinder::DueAt(Time now, Duration hang_timeout) const {
  if (!pace_) return {};
  Due due;
  if (pace_->changes >= kEnoughChanges) {
    switch (ActivityAt(now)) {
      case GangActivity::kQuiet:
        due.limit = Limit(kQuietLimit, kGaps);
        due.at = quiet_since() + due.limit;
        break;
      case GangActivity::kSomeWork:
        due.limit = Limit(kSomeWorkLimit, kManyGaps);
        due.at = pace_->moved_at + due.limit;
        break;
      case GangActivity::kAllWork:
        due.limit = Limit(kAllWorkLimit, kManyGaps);
        due.at = pace_->moved_at + due.limit;
        break;
      case GangActivity::kUnknown:
        due.limit = Limit(kQuietLimit, kGaps);
        due.at = pace_->moved_at + due.limit;
        break;
    }
  }
  if (hang_timeout > Duration::zero() && pace_->counts) {
    const Duration half = std::max<Duration>(hang_timeout / 2, kNearest);
    if (pace_->moved_at + half < due.at) due = {pace_->moved_at + half, half};
  }
  return due;
}

HangFinder::News HangFinder::Judge(Time now, Duration hang_timeout) {
  if (!suspected_) {
    const Due due = DueAt(now, hang_timeout);
    if (due.at == kNever || now < due.at) return News::kNone;
    const GangActivity activity = ActivityAt(now);
    suspected_ = SuspectedHang{.step = pace_->step, .limit = due.limit, .activity = activity};
    if (activity == GangActivity::kSomeWork) suspected_->who = WhoWorks();
    show_at_ = now + kPatience;
    return News::kSuspected;
  }
  if (found_ || now < show_at_) return News::kNone;
  show_at_ = kNever;
  found_ = suspected_;
  if (!places_.empty()) found_->places = JudgeHang(places_).sentence;
  return News::kLookedAt;
}

std::optional<Duration> HangFinder::RestartDue(Time now) const {
  if (!suspected_ || pace_->changes < kEnoughChanges || ActivityAt(now) != GangActivity::kQuiet) {
    return std::nullopt;
  }
  const Duration quiet = now - quiet_since();
  if (quiet < Limit(kRestartLimit, kManyGaps)) return std::nullopt;
  return quiet;
}

// Machines tell their activity each 5 s, and with that Judge and RestartDue are asked in any case.
Time HangFinder::NextWake(Duration hang_timeout) const {
  if (!pace_) return kNever;
  return suspected_ ? show_at_ : DueAt(heard_at_, hang_timeout).at;
}

std::string HangFinder::WhoWorks() const {
  uint32_t ranks = 0;
  uint32_t working = 0;
  std::optional<uint32_t> first;
  for (const uint32_t machine : members_) {
    const auto found = machines_.find(machine);
    if (found == machines_.end()) continue;
    const RankActivity& activity = found->second.activity;
    ranks += activity.ranks;
    working += activity.working;
    if (activity.working > 0 && !first) first = activity.first_working;
  }
  if (!first || working == ranks) return "";
  if (working == 1) return "rank " + std::to_string(*first) + " works, the others wait";
  return std::to_string(working) + " of " + std::to_string(ranks) + " ranks work, the others wait";
}

}  // namespace lockstep::core
