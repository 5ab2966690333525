#include "cli/log_lines.h"

#include <charconv>

#include "base/text/json.h"

namespace lockstep::cli {
namespace {

constexpr std::string_view kErrMark = " err]";

// Rank 3 and "text" of "[m0 r3] text" or "[m0 r3 err] text".
std::optional<RankLine> ParsePrefix(std::string_view line) {
  const auto number = [&line](std::string_view before) -> std::optional<uint32_t> {
    if (!line.starts_with(before)) return std::nullopt;
    line.remove_prefix(before.size());
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error != std::errc()) return std::nullopt;
    line.remove_prefix(static_cast<size_t>(end - line.data()));
    return value;
  };
  if (!number("[m")) return std::nullopt;
  const std::optional<uint32_t> rank = number(" r");
  const bool err = line.starts_with(kErrMark);
  if (!rank || !(err || line.starts_with(']'))) return std::nullopt;
  line.remove_prefix(err ? kErrMark.size() : 1);
  if (line.starts_with(' ')) line.remove_prefix(1);
  return RankLine{rank, err ? StdStream::kErr : StdStream::kUnknown, std::string(line)};
}

std::optional<RankLine> ParseJsonLine(std::string_view line) {
  const Json object = ParseJson(line);
  if (!object.is_object()) return std::nullopt;
  const auto rank = object.find("rank");
  if (rank == object.end() || !rank->is_number_unsigned()) return std::nullopt;
  RankLine parsed{rank->get<uint32_t>(), StdStream::kUnknown, {}};
  const auto text = [&object](const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
  };
  const std::string stream = text("stream");
  if (stream == "stdout") parsed.stream = StdStream::kOut;
  if (stream == "stderr") parsed.stream = StdStream::kErr;
  parsed.text = text("message");
  return parsed;
}

}  // namespace

StampedLine SplitStamp(std::string_view line) {
  const size_t blank = line.find(' ');
  const Result<WallTime> at = ParseWallTime(line.substr(0, blank));
  if (!at.ok()) return {std::nullopt, line};
  return {*at, blank == std::string_view::npos ? "" : line.substr(blank + 1)};
}

RankLine ParseRankLine(core::LogFormat format, std::string_view line) {
  std::optional<RankLine> parsed;
  if (format == core::LogFormat::kPrefix) parsed = ParsePrefix(line);
  if (format == core::LogFormat::kJson) parsed = ParseJsonLine(line);
  return parsed ? *std::move(parsed)
                : RankLine{std::nullopt, StdStream::kUnknown, std::string(line)};
}

std::string WithoutMark(std::string_view line) {
  std::string plain(line);
  const size_t end = line.find(']');
  if (end == std::string_view::npos || end < kErrMark.size()) return plain;
  const size_t mark = end + 1 - kErrMark.size();
  if (line.starts_with("[m") && line.substr(mark).starts_with(kErrMark)) {
    plain.erase(mark, kErrMark.size() - 1);
  }
  return plain;
}

bool LogFilter::Passes(std::string_view line) const {
  if (!rank_ || format_ == core::LogFormat::kRaw) return true;
  return ParseRankLine(format_, line).rank == static_cast<uint32_t>(*rank_);
}

std::string WhyNotAlone(const core::Spec& spec, int rank) {
  if (spec.logs.console == core::Console::kRankZero && rank != 0) {
    return "logs.console is RankZero: other ranks' lines are not in the log";
  }
  if (spec.logs.console == core::Console::kFailedOnly) {
    return "logs.console is FailedOnly: only ranks that failed have lines";
  }
  if (core::LaunchOf(spec) == core::Launch::kPerMachine && spec.processes_per_machine > 1) {
    return "launch is PerMachine: the launcher's lines are shown, which don't name their rank";
  }
  if (spec.logs.format == core::LogFormat::kRaw && spec.processes_per_machine > 1) {
    return "logs.format is Raw: its lines don't name their rank; the whole machine's are shown";
  }
  return "";
}

}  // namespace lockstep::cli
