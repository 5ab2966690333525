// The agent's own log lines: a function that the parts get, and a limit on the rate of lines that a
// stranger can cause.
#ifndef LOCKSTEP_WORKER_AGENT_LOGS_LOG_H_
#define LOCKSTEP_WORKER_AGENT_LOGS_LOG_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "base/time.h"

namespace lockstep::agent {

// Takes one line without its end. Never blocks.
using LogFn = std::function<void(const std::string& line)>;

// Lets `burst` lines through in each `window`; the next line after that says how many were held
// back. Ten thousand refused connections are ten lines, not ten thousand.
class RateLimitedLog {
 public:
  RateLimitedLog(LogFn log, uint64_t burst, Duration window)
      : log_(std::move(log)), burst_(burst), window_(window) {}

  void Write(Time now, const std::string& line) {
    if (now >= window_end_) {
      if (held_back_ > 0)
        log_(std::to_string(held_back_) + " more lines like the last were left out");
      held_back_ = 0;
      written_ = 0;
      window_end_ = now + window_;
    }
    if (written_ >= burst_) {
      ++held_back_;
      return;
    }
    ++written_;
    log_(line);
  }

 private:
  LogFn log_;
  uint64_t burst_;
  Duration window_;
  Time window_end_{};
  uint64_t written_ = 0;
  uint64_t held_back_ = 0;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_LOGS_LOG_H_
