#include "cli/numa/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace lockstep::numa {
namespace {

constexpr int kSeries = 2000;

// Between the two nearest of `sorted`, which isn't empty; `part` from 0 to 1.
double Quantile(const std::vector<double>& sorted, double part) {
  const double place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - std::floor(place)) * (sorted[above] - sorted[below]);
}

}  // namespace

Summary Summarize(std::vector<double> figures, uint64_t seed) {
  if (figures.empty()) return {};
  std::sort(figures.begin(), figures.end());
  std::mt19937_64 random(seed);
  std::vector<double> medians;
  medians.reserve(kSeries);
  std::vector<double> series(figures.size());
  for (int i = 0; i < kSeries; ++i) {
    for (double& figure : series) figure = figures[random() % figures.size()];
    std::sort(series.begin(), series.end());
    medians.push_back(Quantile(series, 0.5));
  }
  std::sort(medians.begin(), medians.end());
  const auto count = static_cast<double>(figures.size());
  const double mean = std::accumulate(figures.begin(), figures.end(), 0.0) / count;
  double squares = 0;
  for (const double figure : figures) squares += (figure - mean) * (figure - mean);
  return {.count = static_cast<int>(figures.size()),
          .median = Quantile(figures, 0.5),
          .low = Quantile(medians, 0.025),
          .high = Quantile(medians, 0.975),
          .p5 = Quantile(figures, 0.05),
          .p95 = Quantile(figures, 0.95),
          .least = figures.front(),
          .most = figures.back(),
          .deviation = figures.size() < 2 ? 0 : std::sqrt(squares / (count - 1))};
}

}  // namespace lockstep::numa
