#include "cli/ui/series.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::cli {
namespace {

// Six digits: what a screen can show, in half the bytes.
OrderedJson Rounded(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == 0) return 0;
  const double scale = std::pow(10, 5 - std::floor(std::log10(std::abs(value))));
  const double rounded = std::round(value * scale) / scale;
  return std::isfinite(rounded) ? rounded : value;
}

struct Column {
  const char* name;
  std::optional<double> SeriesPoint::* figure;
};
constexpr std::array<Column, 3> kOwnColumns = {{
    {"stepsPerSecond", &SeriesPoint::steps_per_second},
    {"loss", &SeriesPoint::loss},
    {"tokensPerSecond", &SeriesPoint::tokens_per_second},
}};
// Behind these stands a column for each known figure.
constexpr size_t kColumns = kOwnColumns.size() + core::kKnownFigures.size();
static_assert(kColumns <= 32, "Series has a bit for each column");

std::string_view NameOf(size_t column) {
  if (column < kOwnColumns.size()) return kOwnColumns[column].name;
  return core::kKnownFigures[column - kOwnColumns.size()].name;
}

std::optional<double> ValueOf(const SeriesPoint& point, size_t column) {
  if (column < kOwnColumns.size()) return point.*kOwnColumns[column].figure;
  const double value = point.known.*core::kKnownFigures[column - kOwnColumns.size()].value;
  return value == 0 ? std::nullopt : std::optional(value);
}

unsigned KnownIn(const SeriesPoint& point) {
  unsigned known = 0;
  for (size_t i = 0; i < kColumns; ++i) {
    if (ValueOf(point, i)) known |= 1U << i;
  }
  return known;
}

}  // namespace

void Series::Add(const SeriesPoint& point, uint64_t version) {
  if (point.step == last_step_) return;
  const bool back = point.step < last_step_;  // a restart: a curve must show where it went on
  last_step_ = point.step;
  if (++passed_ < stride_ && !back) return;
  passed_ = 0;
  points_.push_back(point);
  versions_.push_back(version);
  version_ = version;
  const unsigned known = known_ | KnownIn(point);
  if (known != known_) versions_.assign(versions_.size(), version);
  known_ = known;
  if (points_.size() < kMostPoints) return;
  size_t kept = 0;
  for (size_t i = 1; i < points_.size(); i += 2) points_[kept++] = points_[i];
  points_.resize(kept);
  versions_.assign(kept, version);
  stride_ *= 2;
}

OrderedJson Series::Json(uint64_t after) const {
  const auto first =
      static_cast<size_t>(std::ranges::upper_bound(versions_, after) - versions_.begin());
  OrderedJson json = {{"from", first}};
  OrderedJson& t = json["t"] = OrderedJson::array();
  for (size_t i = first; i < points_.size(); ++i) t.push_back(points_[i].t);
  OrderedJson& step = json["step"] = OrderedJson::array();
  for (size_t i = first; i < points_.size(); ++i) step.push_back(points_[i].step);
  for (size_t column = 0; column < kColumns; ++column) {
    if ((known_ & 1U << column) == 0) continue;
    OrderedJson& values = json[std::string(NameOf(column))] = OrderedJson::array();
    for (size_t i = first; i < points_.size(); ++i) {
      const std::optional<double> value = ValueOf(points_[i], column);
      values.push_back(value ? Rounded(*value) : nullptr);
    }
  }
  return json;
}

}  // namespace lockstep::cli
