#include "core/scan/line_cutter.h"

#include <algorithm>
#include <utility>

namespace lockstep::core {

std::vector<std::string> LineCutter::Feed(std::string_view bytes, Time now) {
  std::vector<std::string> lines;
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    line_.append(bytes.substr(0, std::min(end, kMaxLine - std::min(kMaxLine, line_.size()))));
    if (end == bytes.size()) break;
    if (bytes[end] == '\r') {
      EndState(now, &lines);
      is_state_ = true;
    } else {
      if (!line_.empty()) {
        held_.clear();
        lines.push_back(std::exchange(line_, {}));
      } else if (!held_.empty()) {
        lines.push_back(std::exchange(held_, {}));
      }
      is_state_ = false;
    }
    bytes.remove_prefix(end + 1);
  }
  // Bars that write their carriage return first: the state is whole after one write.
  if (is_state_ && !line_.empty()) held_ = line_;
  for (std::string& line : Tick(now)) lines.push_back(std::move(line));
  return lines;
}

void LineCutter::EndState(Time now, std::vector<std::string>* lines) {
  if (line_.empty()) return;
  held_ = std::exchange(line_, {});
  for (std::string& line : Tick(now)) lines->push_back(std::move(line));
}

std::vector<std::string> LineCutter::Tick(Time now) {
  if (held_.empty() || now < told_ + gap_) return {};
  told_ = now;
  return {std::exchange(held_, {})};
}

std::vector<std::string> LineCutter::Finish() {
  std::vector<std::string> lines;
  std::string last = line_.empty() ? std::exchange(held_, {}) : std::exchange(line_, {});
  held_.clear();
  if (!last.empty()) lines.push_back(std::move(last));
  return lines;
}

}  // namespace lockstep::core
