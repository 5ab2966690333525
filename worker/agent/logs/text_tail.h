// TextTail: the last bytes of an output, kept for the failure report: what a process said before it
// died is often the only cause there is. Pure.
#ifndef LOCKSTEP_WORKER_AGENT_LOGS_TEXT_TAIL_H_
#define LOCKSTEP_WORKER_AGENT_LOGS_TEXT_TAIL_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::agent {

// Every byte sequence that is not UTF-8 becomes U+FFFD; control characters but tab and line end
// become spaces. The result has at most `max_size` bytes and is cut between characters.
std::string SanitizeUtf8(std::string_view text, size_t max_size);

class TextTail {
 public:
  static constexpr size_t kKept = size_t{4} << 10;

  void Feed(std::string_view bytes);
  // The last whole lines that fit into `max_size` bytes; the end of the last line when that alone
  // does not fit. Valid UTF-8, without the last line end.
  std::string Lines(size_t max_size) const;

 private:
  std::string tail_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_LOGS_TEXT_TAIL_H_
