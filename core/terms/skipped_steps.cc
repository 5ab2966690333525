#include "core/terms/skipped_steps.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/text/ascii.h"

namespace lockstep::core {

namespace {

using StepRange = std::pair<int64_t, int64_t>;

std::optional<StepRange> ParseStepRange(std::string_view text) {
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto first = ParseNumber<int64_t>(text.substr(0, dash));
  const auto last = ParseNumber<int64_t>(text.substr(dash + 1));
  if (!first || !last || *first < 1 || *last < *first) return std::nullopt;
  return StepRange{*first, *last};
}

std::vector<StepRange> ParseStepRanges(std::string_view text) {
  std::vector<StepRange> ranges;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    if (const auto range = ParseStepRange(text.substr(0, comma))) ranges.push_back(*range);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return ranges;
}

}  // namespace

bool SkipsStep(std::string_view skipped, int64_t step) {
  return std::ranges::any_of(ParseStepRanges(skipped), [step](const StepRange& range) {
    return range.first <= step && step <= range.second;
  });
}

std::string AddSkipped(std::string_view skipped, int64_t first, int64_t last) {
  std::vector<StepRange> ranges = ParseStepRanges(skipped);
  if (first >= 1 && last >= first) ranges.emplace_back(first, last);
  std::ranges::sort(ranges);
  std::vector<StepRange> joined;
  for (const StepRange& range : ranges) {
    if (!joined.empty() && range.first <= joined.back().second + 1) {
      joined.back().second = std::max(joined.back().second, range.second);
    } else {
      joined.push_back(range);
    }
  }
  std::string text;
  for (const auto& [from, to] : joined) {
    text += (text.empty() ? "" : ",") + std::to_string(from) + "-" + std::to_string(to);
  }
  return text;
}

}  // namespace lockstep::core
