// Where the run's text goes: ranks' lines to stdout, events to stderr, and on a terminal a table
// that stays below both and is redrawn in place.
//
// A reader that stands still never blocks the operator: what can't be written waits, up to a bound;
// congested() then says that no more should be read from agents, which drop and count by their own
// rules.
#ifndef LOCKSTEP_CLI_RUN_OUTPUT_SCREEN_H_
#define LOCKSTEP_CLI_RUN_OUTPUT_SCREEN_H_

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/unique_fd.h"
#include "cli/run/output/table.h"

namespace lockstep::cli {

// Bytes on their way to one descriptor, which stays the caller's and in blocking mode: it is shared
// with whoever started this program. A pipe or terminal is opened once more, so as not to block; a
// file never blocks for long; of anything else only so much is written as poll promises room for.
class Sink {
 public:
  Sink(int fd, EventLoop* loop);

  void Write(std::string_view bytes);
  size_t pending() const { return bytes_.size(); }
  // Why bytes were dropped, once for each time that this begins: the disk is full or failed. ""
  // otherwise, also if the reader is gone, who wants no more.
  std::string TakeProblem() { return std::exchange(problem_, {}); }

 private:
  void Drain();

  int fd_;
  UniqueFd own_;          // the second opening
  bool careful_ = false;  // fd_ would block
  EventLoop* loop_;
  std::string bytes_;
  bool watching_ = false;
  bool broken_ = false;  // the reader is gone: text is dropped
  bool losing_ = false;  // the last write failed for another reason; the next is tried
  std::string problem_;
};

class Screen {
 public:
  Screen(EventLoop* loop, bool live, bool color);

  // Lines with their ends, as agents wrote them; the last line of raw output may have none.
  void RankText(std::string_view lines);
  // One line without its end.
  void Event(const std::string& text);
  // Called with each event from now on.
  void OnEvent(std::function<void(const std::string&)> listener) {
    listener_ = std::move(listener);
  }
  // What stands below everything until the next call; nothing happens unless live.
  void SetTable(std::vector<std::string> lines);
  // Puts out what was gathered since the last call.
  void Flush();

  bool live() const { return live_; }
  bool color() const { return color_; }
  bool congested() const;
  bool drained() const { return out_.pending() == 0 && err_.pending() == 0; }
  static TerminalSize Size();

 private:
  bool live_;
  bool color_;
  bool ranks_on_screen_;  // stdout is the terminal too
  Sink out_;
  Sink err_;
  std::function<void(const std::string&)> listener_;
  std::string above_;  // text to go above the table
  std::vector<std::string> table_;
  bool table_changed_ = false;
  size_t drawn_ = 0;  // lines of the table that stand on the terminal
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_OUTPUT_SCREEN_H_
