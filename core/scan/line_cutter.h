// LineCutter: the lines of one stream of a program's output, as the progress scanner reads them. A
// carriage return ends a line too, so each state of a progress bar is a line. Of states that come
// faster than `gap` only the newest is kept. Pure, and bounded: a line is cut at kMaxLine bytes.
// LineSplitter (worker/agent/logs) cuts the same bytes for people, who want one line a bar.
#ifndef LOCKSTEP_CORE_SCAN_LINE_CUTTER_H_
#define LOCKSTEP_CORE_SCAN_LINE_CUTTER_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace lockstep::core {

class LineCutter {
 public:
  static constexpr size_t kMaxLine = 1024;  // bytes; color codes take up to half of a line
  static constexpr Duration kGap = milliseconds(100);

  // `gap` zero: every state of a bar is a line.
  explicit LineCutter(Duration gap = kGap) : gap_(gap) {}

  // The lines that `bytes` end, without their ends.
  std::vector<std::string> Feed(std::string_view bytes, Time now);
  // The state of a bar that was held back, if its time has come.
  std::vector<std::string> Tick(Time now);
  // When Tick may return a line; kNever: it will not.
  Time NextTick() const { return held_.empty() ? kNever : told_ + gap_; }
  // The end of the output: what is left is a line.
  std::vector<std::string> Finish();

 private:
  void EndState(Time now, std::vector<std::string>* lines);

  Duration gap_;
  std::string line_;
  bool is_state_ = false;  // a carriage return stands before `line_`
  std::string held_;       // the newest state that is not told
  Time told_ = Time::min() / 2;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_SCAN_LINE_CUTTER_H_
