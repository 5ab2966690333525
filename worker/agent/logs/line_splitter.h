// LineSplitter: lines out of a process's output, for people to read. Pure, and bounded: a line of a
// gigabyte comes in pieces of 16 KiB. A carriage return overwrites what stands before it in the
// line, as it does on a terminal, so a progress bar becomes the one line that is left of it.
#ifndef LOCKSTEP_WORKER_AGENT_LOGS_LINE_SPLITTER_H_
#define LOCKSTEP_WORKER_AGENT_LOGS_LINE_SPLITTER_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace lockstep::agent {

class LineSplitter {
 public:
  // `continues`: the line was too long and goes on in the next call. Without its line end.
  using Sink = std::function<void(std::string_view line, bool continues)>;

  static constexpr size_t kMaxLine = size_t{16} << 10;

  void Feed(std::string_view bytes, const Sink& sink);
  // The end of the output: what is left is a line too.
  void Finish(const Sink& sink);

 private:
  void Add(std::string_view bytes, const Sink& sink);

  std::string line_;
  bool overwrite_ = false;  // a carriage return was last
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_LOGS_LINE_SPLITTER_H_
