#include "worker/agent/logs/line_splitter.h"

#include <algorithm>

namespace lockstep::agent {

void LineSplitter::Feed(std::string_view bytes, const Sink& sink) {
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    Add(bytes.substr(0, end), sink);
    if (end == bytes.size()) return;
    if (bytes[end] == '\n') {
      sink(line_, false);
      line_.clear();
      overwrite_ = false;
    } else {
      overwrite_ = true;
    }
    bytes.remove_prefix(end + 1);
  }
}

void LineSplitter::Add(std::string_view bytes, const Sink& sink) {
  if (bytes.empty()) return;
  if (overwrite_) {
    line_.clear();
    overwrite_ = false;
  }
  while (!bytes.empty()) {
    if (line_.size() == kMaxLine) {
      sink(line_, true);
      line_.clear();
    }
    const size_t taken = std::min(bytes.size(), kMaxLine - line_.size());
    line_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
  }
}

void LineSplitter::Finish(const Sink& sink) {
  if (!line_.empty()) sink(line_, false);
  line_.clear();
  overwrite_ = false;
}

}  // namespace lockstep::agent
