// LogRing: the newest lines of each rank, for the page and the report. Pure; one thread.
//
// Bounded: kMostLines or kMostBytes a rank, kMostInAll over all ranks, and kMostOfLine a line. Each
// line counts with kLineCost bytes beside its text. Beyond kMostInAll the oldest line of all ranks
// goes first, so that a loud rank never pushes out more than its own and older ones.
#ifndef LOCKSTEP_CLI_UI_LOG_RING_H_
#define LOCKSTEP_CLI_UI_LOG_RING_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/json.h"
#include "cli/log_lines.h"

namespace lockstep::cli {

struct LogLine {
  uint64_t n = 0;  // ascends over all ranks, from 1
  double t = 0;    // seconds since the run began
  StdStream stream = StdStream::kUnknown;
  std::string text;
};

struct LogRingLimits {
  size_t lines = 2000;               // a rank
  size_t bytes = size_t{256} << 10;  // a rank
  size_t in_all = size_t{64} << 20;
};

class LogRing {
 public:
  static constexpr size_t kMostOfLine = size_t{4} << 10;
  static constexpr size_t kLineCost = sizeof(LogLine) + 32;  // its string's own block
  static constexpr size_t kMostInAnswer = 1000;

  explicit LogRing(LogRingLimits limits = {}) : limits_(limits) {}

  void Add(uint32_t rank, double t, StdStream stream, std::string_view text);

  // The newest lines behind line `after`, of `rank` or of all, in the form of
  // docs/internals/page.md.
  OrderedJson Answer(std::optional<uint32_t> rank, uint64_t after) const;
  // The last `lines` of each rank by rank, `bytes` in all: as much of each rank.
  OrderedJson Tails(size_t lines, size_t bytes) const;

  uint64_t last() const { return last_; }
  size_t bytes() const { return bytes_; }

 private:
  struct Rank {
    std::deque<LogLine> lines;
    size_t bytes = 0;
    uint64_t added = 0;
  };

  void DropFirst(uint32_t number, Rank& rank);

  LogRingLimits limits_;
  std::map<uint32_t, Rank> ranks_;
  std::map<uint64_t, uint32_t> oldest_;  // the first line of each rank -> the rank
  uint64_t last_ = 0;
  size_t bytes_ = 0;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_UI_LOG_RING_H_
