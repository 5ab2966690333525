// Console: writes lines to a descriptor that somebody else made (the container's stdout) and never
// waits for whoever reads it. What doesn't fit into its queue is dropped in whole lines, counted,
// and said once there is room again: a reader that stands still blocks no rank.
//
// An inherited descriptor can't be made non-blocking: the setting belongs to the open file, which
// the shell, the container runtime and other processes share. So
//   pipe      a pipe of our own is filled, and spliced over with SPLICE_F_NONBLOCK;
//   socket    send with MSG_DONTWAIT;
//   terminal  opened anew through /proc, with O_NONBLOCK; where that is refused, written to in
//             small pieces, only when poll says that it takes them;
//   file, /dev/null  written to directly: they take what they get.
//
// The process must ignore SIGPIPE. One thread.
#ifndef LOCKSTEP_WORKER_AGENT_LOGS_CONSOLE_H_
#define LOCKSTEP_WORKER_AGENT_LOGS_CONSOLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/unique_fd.h"

namespace lockstep::agent {

class Console {
 public:
  static constexpr size_t kDefaultCapacity = size_t{1} << 20;

  // `fd` stays the caller's.
  Console(EventLoop* loop, int fd, size_t capacity = kDefaultCapacity);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // One line with its end. Sent with all others of this round.
  void Write(std::string_view line);

  // Everything is out, or can never be.
  bool empty() const { return pending() == 0; }
  uint64_t dropped_lines() const { return dropped_lines_; }
  uint64_t dropped_bytes() const { return dropped_bytes_; }

 private:
  enum class Kind { kPipe, kSocket, kReopened, kPolled, kDirect };

  size_t pending() const { return queue_.size() - sent_ + staged_; }
  void Append(std::string_view line);
  void Flush();
  // Bytes written; 0: it takes none now; -1: it never will again.
  ssize_t WriteSome(std::string_view bytes);
  ssize_t WriteThroughPipe(std::string_view bytes);
  void WaitForRoom();
  void Break();

  EventLoop* loop_;
  int fd_;
  size_t capacity_;
  Kind kind_ = Kind::kDirect;
  UniqueFd reopened_;
  UniqueFd stage_in_;  // our own pipe
  UniqueFd stage_out_;
  size_t staged_ = 0;  // bytes in it
  std::string queue_;  // sent up to sent_
  size_t sent_ = 0;
  bool waiting_ = false;
  bool broken_ = false;
  bool flush_scheduled_ = false;
  uint64_t dropped_lines_ = 0;
  uint64_t dropped_bytes_ = 0;
  uint64_t unsaid_lines_ = 0;
  uint64_t unsaid_bytes_ = 0;
  Lifetime lifetime_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_LOGS_CONSOLE_H_
