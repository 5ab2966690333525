#include "core/gang/diagnosis/progress.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>

namespace lockstep::core {

namespace {

// `value` of all ranks together; 0: no rank reports it. `reported`: ranks report, and don't print.
template <typename Value>
double Together(const std::vector<RankProgress>& ranks, OverRanks over_ranks, bool reported,
                Value value) {
  double sum = 0;
  int said = 0;
  for (const RankProgress& rank : ranks) {
    const double its = value(rank);
    if (its == 0) continue;
    if (over_ranks == OverRanks::kSum && !reported) return its;
    sum += its;
    ++said;
  }
  return over_ranks == OverRanks::kMean && said > 0 ? sum / said : sum;
}

std::vector<NamedFigure> MeanFigures(const std::vector<RankProgress>& ranks) {
  struct Sum {
    double value = 0;
    int said = 0;
  };
  std::map<std::string, Sum> sums;
  for (const RankProgress& rank : ranks) {
    for (const NamedFigure& figure : rank.figures) {
      if (!std::isfinite(figure.value)) continue;
      Sum& sum = sums[figure.name];
      sum.value += figure.value;
      ++sum.said;
    }
  }
  std::vector<NamedFigure> means;
  for (const auto& [name, sum] : sums) {
    if (means.size() == kMaxNamedFigures) break;
    means.push_back({name, sum.value / sum.said});
  }
  return means;
}

}  // namespace

std::optional<GangProgress> Summarize(const std::vector<RankProgress>& all) {
  if (all.empty()) return std::nullopt;
  std::vector<RankProgress> ranks = all;
  const bool reported = std::ranges::any_of(
      ranks, [](const RankProgress& rank) { return rank.source == StepSource::kReports; });
  if (reported) {
    std::erase_if(ranks,
                  [](const RankProgress& rank) { return rank.source != StepSource::kReports; });
  }
  GangProgress job;
  job.step = ranks.front().step;
  job.source = ranks.front().source;
  double loss = 0;
  int losses = 0;
  for (const RankProgress& rank : ranks) {
    if (rank.step < job.step) {
      job.step = rank.step;
      job.source = rank.source;
    }
    job.total_steps = std::max(job.total_steps, rank.total_steps);
    if (std::isfinite(rank.loss)) {
      loss += rank.loss;
      ++losses;
    }
  }
  if (losses > 0) job.loss = loss / losses;
  job.tokens_per_second = Together(ranks, OverRanks::kSum, reported,
                                   [](const RankProgress& rank) { return rank.tokens_per_second; });
  for (const KnownFigure& figure : kKnownFigures) {
    job.known.*figure.value =
        Together(ranks, figure.over_ranks, reported,
                 [&figure](const RankProgress& rank) { return rank.known.*figure.value; });
  }
  job.figures = MeanFigures(ranks);
  return job;
}

std::vector<NamedFigure> FiguresOf(const GangProgress& progress) {
  std::vector<NamedFigure> figures;
  if (progress.loss) figures.push_back({"loss", *progress.loss});
  const auto add = [&figures](std::string_view name, double value) {
    if (value > 0) figures.push_back({std::string(name), value});
  };
  add("tokensPerSecond", progress.tokens_per_second);
  for (const KnownFigure& figure : kKnownFigures) add(figure.name, progress.known.*figure.value);
  figures.insert(figures.end(), progress.figures.begin(), progress.figures.end());
  return figures;
}

void RateMeter::Update(Time now, const GangProgress& progress) {
  total_steps_ = progress.total_steps;
  if (!samples_.empty() && progress.step < samples_.back().step) samples_.clear();
  if (!samples_.empty() && progress.step == samples_.back().step) return;
  samples_.push_back({now, progress.step});
  while (samples_.size() > 2 && samples_.front().at < now - kWindow) samples_.pop_front();
}

std::optional<double> RateMeter::steps_per_second() const {
  if (samples_.size() < 2) return std::nullopt;
  double elapsed = std::chrono::duration<double>(samples_.back().at - samples_.front().at).count();
  if (elapsed <= 0) return std::nullopt;
  return static_cast<double>(samples_.back().step - samples_.front().step) / elapsed;
}

std::optional<Duration> RateMeter::Remaining() const {
  std::optional<double> rate = steps_per_second();
  if (!rate || *rate <= 0 || total_steps_ == 0) return std::nullopt;
  double left = static_cast<double>(total_steps_ - samples_.back().step) / *rate;
  if (!(left > 0) || left > 1e9) return std::nullopt;
  return duration_cast<Duration>(std::chrono::duration<double>(left));
}

}  // namespace lockstep::core
