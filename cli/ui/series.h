// Series: the curves of a run: what its gang reported over time, in bounded memory. Pure.
//
// At most kMostPoints are kept. When they are full, every second one goes, and from then on half as
// many are taken: a run of any length has between 1,000 and 2,000 points, evenly over its reports.
#ifndef LOCKSTEP_CLI_UI_SERIES_H_
#define LOCKSTEP_CLI_UI_SERIES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/text/json.h"
#include "core/terms/known_figures.h"

namespace lockstep::cli {

// Absent, or a known figure of 0: nobody said it.
struct SeriesPoint {
  double t = 0;  // seconds since the run began
  int64_t step = 0;
  std::optional<double> steps_per_second;
  std::optional<double> loss;
  std::optional<double> tokens_per_second;
  core::KnownFigures known{};
};

class Series {
 public:
  static constexpr size_t kMostPoints = 2000;

  // `version`: the view's. A report without a step since the last one is no new point.
  void Add(const SeriesPoint& point, uint64_t version);
  // Empty points without a change since version `after`.
  bool ChangedSince(uint64_t after) const { return !points_.empty() && version_ > after; }
  // The points that came since, in the form of docs/internals/page.md. All points once a column is
  // new.
  OrderedJson Json(uint64_t after) const;

  const std::vector<SeriesPoint>& points() const { return points_; }

 private:
  std::vector<SeriesPoint> points_;
  std::vector<uint64_t> versions_;  // of each point
  unsigned known_ = 0;              // a bit for each figure that was ever reported
  uint64_t version_ = 0;
  size_t stride_ = 1;  // one report of so many is a point
  size_t passed_ = 0;  // reports since the last point
  int64_t last_step_ = -1;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_UI_SERIES_H_
