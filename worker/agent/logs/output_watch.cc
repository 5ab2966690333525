#include "worker/agent/logs/output_watch.h"

#include <algorithm>
#include <ctime>
#include <utility>

namespace lockstep::agent {
namespace {

constexpr size_t kMaxRanks = 64;     // processesPerMachine's limit
constexpr size_t kLinesAtOnce = 16;  // between two looks at the clock

}  // namespace

Duration OutputWatch::ThreadCpuTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

OutputWatch::OutputWatch(EventLoop* loop, Patterns patterns, Found on_progress, CpuClock cpu)
    : patterns_(std::move(patterns)),
      on_progress_(std::move(on_progress)),
      cpu_(std::move(cpu)),
      timer_(loop, [this] { Tick(); }) {}

void OutputWatch::BeginGeneration() {
  for (auto& [number, rank] : ranks_) {
    rank.scanner.Restart();
    rank.cutters = std::array<core::LineCutter, 2>();
    rank.told.reset();
    rank.ended = false;
  }
  SetTimer();
}

void OutputWatch::Feed(uint32_t rank, int stream, std::string_view bytes, Time now) {
  auto found = ranks_.find(rank);
  if (found == ranks_.end()) {
    if (ranks_.size() >= kMaxRanks) return;
    found = ranks_.emplace(rank, Rank(patterns_)).first;
  }
  Rank& state = found->second;
  if (state.ended) return;
  core::LineCutter& cutter = state.cutters[stream == 0 ? 0 : 1];
  Scan(rank, state, bytes.empty() ? cutter.Finish() : cutter.Feed(bytes, now), now);
  SetTimer();
}

void OutputWatch::End(uint32_t rank) {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) {
    if (ranks_.size() >= kMaxRanks) return;
    ranks_.emplace(rank, Rank(patterns_)).first->second.ended = true;
    return;
  }
  found->second.ended = true;
  found->second.cutters = std::array<core::LineCutter, 2>();
  SetTimer();
}

void OutputWatch::Scan(uint32_t number, Rank& rank, const std::vector<std::string>& lines,
                       Time now) {
  if (lines.empty()) return;
  core::Patterns::BuiltIn();  // compiled once, outside of what is counted
  if (saved_at_ != Time::min()) {
    const double gained = kShare * static_cast<double>((now - saved_at_).count());
    saved_ = std::min<Duration>(kMostSaved, saved_ + Duration(static_cast<int64_t>(gained)));
  }
  saved_at_ = now;
  for (size_t at = 0; at < lines.size(); at += kLinesAtOnce) {
    const size_t end = std::min(lines.size(), at + kLinesAtOnce);
    if (saved_ <= Duration::zero()) {
      skipped_ += lines.size() - at;
      break;
    }
    const Duration before = cpu_();
    for (size_t i = at; i < end; ++i) {
      rank.scanner.Scan(lines[i]);
      Tell(number, rank);
    }
    saved_ -= cpu_() - before;
    scanned_ += end - at;
  }
}

// After each line, because a rule about a metric asks for each value.
void OutputWatch::Tell(uint32_t number, Rank& rank) const {
  const std::optional<core::OutputProgress>& progress = rank.scanner.progress();
  if (!progress || progress->step <= 0 || (rank.told && !progress->HasNewsAfter(*rank.told))) {
    return;
  }
  rank.told = progress;
  on_progress_(number, *progress);
}

void OutputWatch::Tick() {
  const Time now = BootTime();
  for (auto& [number, rank] : ranks_) {
    for (core::LineCutter& cutter : rank.cutters) {
      if (cutter.NextTick() <= now) Scan(number, rank, cutter.Tick(now), now);
    }
  }
  SetTimer();
}

void OutputWatch::SetTimer() {
  Time next = kNever;
  for (const auto& [number, rank] : ranks_) {
    for (const core::LineCutter& cutter : rank.cutters) next = std::min(next, cutter.NextTick());
  }
  timer_.WakeAt(next);
}

std::vector<prometheus::MetricFamily> OutputWatch::Collect() const {
  return Families()
      .Counter("lockstep_output_lines_scanned_total",
               "Lines of the ranks' output that were searched for progress.", scanned_)
      .Counter("lockstep_output_lines_skipped_total",
               "Lines of the ranks' output that were not searched for progress, because the search "
               "had used 1 % of a core.",
               skipped_)
      .Take();
}

}  // namespace lockstep::agent
