// LogPump: carries the ranks' stdout and stderr from their pipes to the console, to files and into
// the tail that failure reports quote.
//
//   LogPump pump(loop, {.machine = 0, .console = core::Console::kAll, ...}, &console, &files);
//   pump.StartGeneration("2-5");
//   pump.Add(rank, std::move(stdout_fd), std::move(stderr_fd));
//   std::string tail = pump.Finish(rank);        // at its death: reads what is left in the pipes
//
// It always reads, at most 64 KiB of a pipe in a round: no rank ever waits for a reader of ours,
// and a rank that writes without end takes no other descriptor's turn. One thread.
#ifndef LOCKSTEP_WORKER_AGENT_LOGS_LOG_PUMP_H_
#define LOCKSTEP_WORKER_AGENT_LOGS_LOG_PUMP_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/wake_timer.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "core/failure/last_words.h"
#include "core/model/spec.h"
#include "worker/agent/logs/console.h"
#include "worker/agent/logs/line_splitter.h"
#include "worker/agent/logs/log_files.h"
#include "worker/agent/logs/text_tail.h"
#include "worker/agent/metrics/families.h"

namespace lockstep::agent {

struct LogPumpOptions {
  int machine = 0;
  core::Console console = core::Console::kAll;
  core::LogFormat format = core::LogFormat::kPrefix;
  // With kPrefix: a line of stderr begins "[m0 r3 err] ", so that whoever started this agent can
  // tell the streams apart, and takes the mark out of what people read.
  bool marks_stderr = false;
};

class LogPump : public prometheus::Collectable {
 public:
  // Of stderr, for a failure's record.
  static constexpr size_t kFailureTail = 1024;

  // `files`: null when logs.path is empty.
  LogPump(EventLoop* loop, LogPumpOptions options, Console* console, LogFiles* files);
  ~LogPump() override;
  LogPump(const LogPump&) = delete;
  LogPump& operator=(const LogPump&) = delete;

  // Drops the pipes of the generation before, what still stands in them too; but for ranks whose
  // processes are `kept`.
  void StartGeneration(const std::string& generation, const std::set<int>& kept = {});
  // Sees all bytes of a rank as they are read, and no bytes at the end of a stream.
  using Watcher = std::function<void(int rank, int stream, std::string_view bytes)>;
  void Watch(Watcher watcher) { watcher_ = std::move(watcher); }
  // `rank`: the global one.
  void Add(int rank, UniqueFd stdout_fd, UniqueFd stderr_fd);

  // The rank's process is dead: takes what it left in the pipes and returns the last lines of its
  // stderr. Pipes that a process of its own still holds are read on.
  std::string Finish(int rank);
  // When a rank began to say of what it fails (core/failure/last_words.h); kNever: it did not.
  // Reads what is in its stderr first.
  Time WordsBegan(int rank);
  // What it said of its failure, which is held back (kPrefix) until it is known what that was: in
  // full, or `folded` into one line. Later lines are shown as they come.
  void ShowHeld(int rank, bool folded);
  // Its generation failed by it: with console FailedOnly its last lines are shown now.
  void ShowFailed(int rank);

  uint64_t bytes_read() const { return bytes_read_; }
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  enum Stream : size_t { kStdout = 0, kStderr = 1 };
  struct Source {
    UniqueFd fd;
    LineSplitter splitter;
  };
  struct Rank {
    std::array<Source, 2> sources;
    TextTail tail;
    core::LastWordsClock words;
    std::vector<std::string> held;  // lines of stderr from where its last words begin
    size_t held_bytes = 0;
    Time held_until = kNever;  // kNever: lines are shown as they come
  };

  // False: nothing more can be read for now, or ever.
  bool ReadSome(int rank, Stream stream);
  void ReadAll(int rank, Stream stream);
  void Close(int rank, Stream stream);
  void PrintLine(int rank, Stream stream, std::string_view line, Piece piece);
  std::string Format(int rank, Stream stream, std::string_view line, Piece piece) const;
  bool Shows(int rank) const;
  // Whether the line is held back.
  bool Hold(int rank, Stream stream, std::string_view line);
  void ShowOverdue();

  EventLoop* loop_;
  LogPumpOptions options_;
  Console* console_;
  LogFiles* files_;
  std::string generation_;
  std::map<int, Rank> ranks_;
  Watcher watcher_;  // may be empty
  uint64_t lines_read_ = 0;
  uint64_t bytes_read_ = 0;
  WakeTimer hold_timer_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_LOGS_LOG_PUMP_H_
