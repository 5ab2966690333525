#include "cli/ui/rank_meter.h"

namespace lockstep::cli {

void RankMeter::Update(Time now, uint32_t rank, const Total& total) {
  std::deque<Mark>& marks = ranks_[rank];
  if (!marks.empty() && total.step < marks.back().total.step) marks.clear();
  if (!marks.empty() && total.step == marks.back().total.step) return;
  marks.push_back({now, total});
  if (marks.size() > kMarks) marks.pop_front();
}

RankMeter::Figures RankMeter::Of(uint32_t rank) const {
  Figures figures;
  const auto found = ranks_.find(rank);
  if (found == ranks_.end() || found->second.size() < 2) return figures;
  const Mark& first = found->second.front();
  const Mark& last = found->second.back();
  const auto steps = static_cast<double>(last.total.step - first.total.step);
  figures.step_seconds = std::chrono::duration<double>(last.at - first.at).count() / steps;
  const int64_t waits = last.total.waits - first.total.waits;
  const double waited = last.total.waited - first.total.waited;
  if (waits > 0 && waited >= 0) figures.wait_seconds = waited / static_cast<double>(waits);
  return figures;
}

}  // namespace lockstep::cli
