// Which of a machine's lines are a rank's, as agents write them for each logs.format. Pure.
#ifndef LOCKSTEP_CLI_LOG_LINES_H_
#define LOCKSTEP_CLI_LOG_LINES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/wall_time.h"
#include "core/model/launch.h"
#include "core/model/spec.h"

namespace lockstep::cli {

// What stands in front of a line when kubelet is asked for timestamps.
struct StampedLine {
  std::optional<WallTime> at;  // none: the line has no stamp
  std::string_view text;
};
StampedLine SplitStamp(std::string_view line);

enum class StdStream : uint8_t { kUnknown, kOut, kErr };

// What an agent's line says, with its rank where it does.
struct RankLine {
  std::optional<uint32_t> rank;
  StdStream stream = StdStream::kUnknown;
  std::string text;  // as the rank wrote it
};
RankLine ParseRankLine(core::LogFormat format, std::string_view line);

// A line of an agent that marks stderr (core::AgentConfig), as people read it.
std::string WithoutMark(std::string_view line);

class LogFilter {
 public:
  // Every line passes without a rank, and where lines don't say their rank (WhyNotAlone).
  LogFilter(const core::Spec& spec, std::optional<int> rank)
      : rank_(core::LaunchOf(spec) == core::Launch::kPerProcess ? rank : std::nullopt),
        format_(spec.logs.format) {}

  bool Passes(std::string_view line) const;
  bool passes_all() const { return !rank_; }

 private:
  std::optional<int> rank_;
  core::LogFormat format_;
};

// Why `rank`'s lines cannot be told from its machine's, or are not there at all; "" when all is
// well.
std::string WhyNotAlone(const core::Spec& spec, int rank);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_LOG_LINES_H_
