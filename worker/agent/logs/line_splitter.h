// LineSplitter: lines out of a process's output, for people to read. Pure, and bounded: a line of a
// gigabyte comes in pieces, which are cut between characters. A carriage return overwrites what
// stands before it in the line, as it does on a terminal, so a progress bar becomes the one line
// that is left of it; one that goes on for long is told as it stands, every kTellEvery.
#ifndef LOCKSTEP_WORKER_AGENT_LOGS_LINE_SPLITTER_H_
#define LOCKSTEP_WORKER_AGENT_LOGS_LINE_SPLITTER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace lockstep::agent {

// What a call of LineSplitter's sink gives.
enum class Piece : uint8_t {
  kLine,       // a line, or the last piece of one, without its line end
  kContinues,  // a piece of a line that is too long: it goes on in the next call
  kUnended,    // the last line of the output, which has no line end
  kState,      // what a line that is overwritten again and again looks like now
};

class LineSplitter {
 public:
  using Sink = std::function<void(std::string_view line, Piece piece)>;

  static constexpr size_t kMaxLine = size_t{16} << 10;
  static constexpr Duration kTellEvery = seconds(10);

  LineSplitter() = default;
  explicit LineSplitter(size_t max_line) : max_line_(max_line) {}

  void Feed(std::string_view bytes, Time now, const Sink& sink);
  // The end of the output: what is left is a line too.
  void Finish(const Sink& sink);

 private:
  void Add(std::string_view bytes, const Sink& sink);
  void EndLine();
  void TellState(Time now, const Sink& sink);

  size_t max_line_ = kMaxLine;
  std::string line_;
  bool overwrite_ = false;    // a carriage return was last
  bool overwritten_ = false;  // this line has been
  Time told_{};               // this line, or its beginning
  std::string told_line_;     // as it was told
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_LOGS_LINE_SPLITTER_H_
