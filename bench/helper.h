// Helper: another process of the benchmark, and the line between it and this one, which carries
// whole JSON values.
//
//   Helper server = Helper::Start([](Line line) { ...; return 0; });
//   Json answer = server.Ask({{"ask", "usage"}});
//
// Started by fork, so before this process has threads or memory to speak of.
#ifndef LOCKSTEP_TESTS_BENCH_HELPER_H_
#define LOCKSTEP_TESTS_BENCH_HELPER_H_

#include <sys/types.h>

#include <functional>

#include "base/loop/event_loop.h"
#include "base/unique_fd.h"
#include "bench/figures.h"

namespace lockstep::bench {

// One end. A peer that is gone ends the process: a benchmark without one of its parts is none.
class Line {
 public:
  explicit Line(UniqueFd fd) : fd_(std::move(fd)) {}
  void Say(const Json& value) const;
  Json Hear() const;
  // Hears on the loop from now on.
  void Watch(EventLoop* loop, std::function<void(const Json&)> heard) const;

 private:
  UniqueFd fd_;
};

class Helper {
 public:
  static Helper Start(const std::function<void(const Line&)>& role);
  Helper(Helper&& other) noexcept
      : pid_(std::exchange(other.pid_, 0)), line_(std::move(other.line_)) {}
  Helper& operator=(Helper&&) = delete;
  ~Helper();  // kills and reaps it

  Json Hear() const { return line_.Hear(); }
  Json Ask(const Json& question) const {
    line_.Say(question);
    return line_.Hear();
  }

 private:
  Helper(pid_t pid, Line line) : pid_(pid), line_(std::move(line)) {}
  pid_t pid_;
  Line line_;
};

// This process's use of the machine: {"rssMB", "peakMB", "cpuMs"}.
Json Usage();

// Lets this process open as many files as it may, which must be this many; or ends it.
void AllowFiles(size_t least);

// Says `what` and errno, and ends the process.
[[noreturn]] void Fail(const char* what);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_TESTS_BENCH_HELPER_H_
