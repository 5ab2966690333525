// Small shell programs as ranks of tests.
#ifndef LOCKSTEP_TESTS_BASE_SHELL_H_
#define LOCKSTEP_TESTS_BASE_SHELL_H_

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <string>

#include "base/loop/event_loop.h"
#include "base/process/process.h"

namespace lockstep {

inline SpawnRequest Shell(const std::string& script) {
  return {.path = "/bin/sh",
          .argv = {"sh", "-c", script},
          .env = {"PATH=/usr/bin:/bin"},
          .working_directory = "/"};
}

// Everything a pipe gives until its end.
class Output {
 public:
  Output(EventLoop* loop, UniqueFd fd) : loop_(loop), fd_(std::move(fd)) {
    const Status watched = loop_->Watch(fd_.get(), EPOLLIN, [this](uint32_t) { Read(); });
    ended_ = !watched.ok();
  }
  ~Output() { loop_->Unwatch(fd_.get()); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  const std::string& text() const { return text_; }
  bool ended() const { return ended_; }

 private:
  void Read() {
    std::array<char, 4096> buffer;
    const ssize_t got = read(fd_.get(), buffer.data(), buffer.size());
    if (got > 0) text_.append(buffer.data(), static_cast<size_t>(got));
    if (got > 0 || (got < 0 && errno == EAGAIN)) return;
    ended_ = true;
    loop_->Unwatch(fd_.get());
  }

  EventLoop* loop_;
  UniqueFd fd_;
  std::string text_;
  bool ended_ = false;
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_BASE_SHELL_H_
