#include "cli/cluster/log_lines.h"

#include <charconv>

#include "base/text/json.h"

namespace lockstep::cli {
namespace {

// 3 of "[m0 r3] text".
std::optional<int> RankOfPrefix(std::string_view line) {
  const auto number = [&line](std::string_view before) -> std::optional<int> {
    if (!line.starts_with(before)) return std::nullopt;
    line.remove_prefix(before.size());
    int value = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error != std::errc()) return std::nullopt;
    line.remove_prefix(static_cast<size_t>(end - line.data()));
    return value;
  };
  if (!number("[m")) return std::nullopt;
  const std::optional<int> rank = number(" r");
  return line.starts_with("]") ? rank : std::nullopt;
}

std::optional<int> RankOfJson(std::string_view line) {
  const auto object = ParseJson(line);
  if (!object.is_object()) return std::nullopt;
  const auto rank = object.find("rank");
  if (rank == object.end() || !rank->is_number_integer()) return std::nullopt;
  return rank->get<int>();
}

}  // namespace

StampedLine SplitStamp(std::string_view line) {
  const size_t blank = line.find(' ');
  const Result<WallTime> at = ParseWallTime(line.substr(0, blank));
  if (!at.ok()) return {std::nullopt, line};
  return {*at, blank == std::string_view::npos ? "" : line.substr(blank + 1)};
}

bool LogFilter::Passes(std::string_view line) const {
  if (!rank_) return true;
  switch (format_) {
    case core::LogFormat::kRaw:
      return true;
    case core::LogFormat::kPrefix:
      return RankOfPrefix(line) == rank_;
    case core::LogFormat::kJson:
      return RankOfJson(line) == rank_;
  }
  return true;
}

std::string WhyNotAlone(const core::Spec& spec, int rank) {
  if (spec.logs.console == core::Console::kRankZero && rank != 0) {
    return "logs.console is RankZero: other ranks' lines are not in the pods' logs";
  }
  if (spec.logs.console == core::Console::kFailedOnly) {
    return "logs.console is FailedOnly: lines are there only of ranks that failed";
  }
  if (core::LaunchOf(spec) == core::Launch::kPerMachine && spec.processes_per_machine > 1) {
    return "launch is PerMachine: the launcher's lines are shown, which don't say their rank";
  }
  if (spec.logs.format == core::LogFormat::kRaw && spec.processes_per_machine > 1) {
    return "logs.format is Raw: its lines don't say their rank; the whole machine's are shown";
  }
  return "";
}

}  // namespace lockstep::cli
