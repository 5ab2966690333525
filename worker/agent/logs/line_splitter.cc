#include "worker/agent/logs/line_splitter.h"

#include <algorithm>

namespace lockstep::agent {
namespace {

// How much of `text` to take so that no UTF-8 character is torn: less than all where its end is the
// beginning of one.
size_t WholeCharacters(std::string_view text) {
  constexpr size_t kLongest = 4;
  for (size_t back = 1; back <= std::min(kLongest - 1, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;  // a character goes on here
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > back ? text.size() - back : text.size();
  }
  return text.size();
}

}  // namespace

void LineSplitter::Feed(std::string_view bytes, Time now, const Sink& sink) {
  while (!bytes.empty()) {
    if (line_.empty() && !overwritten_) told_ = now;
    const size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    Add(bytes.substr(0, end), sink);
    if (end == bytes.size()) break;
    if (bytes[end] == '\n') {
      sink(line_, Piece::kLine);
      EndLine();
    } else {
      overwrite_ = true;
    }
    bytes.remove_prefix(end + 1);
  }
  TellState(now, sink);
}

void LineSplitter::Add(std::string_view bytes, const Sink& sink) {
  if (bytes.empty()) return;
  if (overwrite_) {
    line_.clear();
    overwrite_ = false;
    overwritten_ = true;
  }
  while (!bytes.empty()) {
    if (line_.size() == max_line_) {
      const size_t whole = WholeCharacters(line_);
      sink(std::string_view(line_).substr(0, whole), Piece::kContinues);
      line_.erase(0, whole);
    }
    const size_t taken = std::min(bytes.size(), max_line_ - line_.size());
    line_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
  }
}

void LineSplitter::TellState(Time now, const Sink& sink) {
  if (!overwritten_ || line_.empty() || now - told_ < kTellEvery) return;
  told_ = now;
  if (line_ == told_line_) return;
  told_line_ = line_;
  sink(line_, Piece::kState);
}

void LineSplitter::EndLine() {
  line_.clear();
  told_line_.clear();
  overwrite_ = false;
  overwritten_ = false;
}

void LineSplitter::Finish(const Sink& sink) {
  if (!line_.empty()) sink(line_, Piece::kUnended);
  EndLine();
}

}  // namespace lockstep::agent
