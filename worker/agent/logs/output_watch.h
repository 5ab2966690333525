// OutputWatch: reads the progress of this machine's ranks from what they print
// (core/scan/progress_scanner.h), and tells each news of it. It may use 1 % of a core: what comes
// beyond that is not scanned, and counted. A rank that reports its steps by itself is scanned no
// more. One thread.
#ifndef LOCKSTEP_WORKER_AGENT_LOGS_OUTPUT_WATCH_H_
#define LOCKSTEP_WORKER_AGENT_LOGS_OUTPUT_WATCH_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/wake_timer.h"
#include "base/time.h"
#include "core/scan/line_cutter.h"
#include "core/scan/progress_scanner.h"
#include "worker/agent/metrics/families.h"

namespace lockstep::agent {

class OutputWatch : public prometheus::Collectable {
 public:
  using Found = std::function<void(uint32_t rank, const core::OutputProgress& progress)>;
  // CPU time of this thread.
  using CpuClock = std::function<Duration()>;
  using Patterns = std::shared_ptr<const std::vector<core::CompiledPattern>>;

  static constexpr double kShare = 0.01;                     // of a core
  static constexpr Duration kMostSaved = milliseconds(100);  // CPU time that may be spent at once

  OutputWatch(EventLoop* loop, Patterns patterns, Found on_progress, CpuClock cpu = ThreadCpuTime);
  OutputWatch(const OutputWatch&) = delete;
  OutputWatch& operator=(const OutputWatch&) = delete;

  // The ranks' programs begin anew.
  void BeginGeneration();
  // Bytes of stdout (0) or stderr (1) of a rank; none: the stream has ended.
  void Feed(uint32_t rank, int stream, std::string_view bytes, Time now);
  // The rank reports its steps by itself.
  void End(uint32_t rank);

  uint64_t skipped_lines() const { return skipped_; }
  std::vector<prometheus::MetricFamily> Collect() const override;

  static Duration ThreadCpuTime();

 private:
  struct Rank {
    explicit Rank(const Patterns& patterns)
        : scanner(core::ScannerOptions{.patterns = patterns, .explain = false}) {}
    core::ProgressScanner scanner;
    std::array<core::LineCutter, 2> cutters;
    std::optional<core::OutputProgress> told;
    bool ended = false;
  };

  void Scan(uint32_t number, Rank& rank, const std::vector<std::string>& lines, Time now);
  void Tell(uint32_t number, Rank& rank) const;
  void Tick();
  void SetTimer();

  Patterns patterns_;
  Found on_progress_;
  CpuClock cpu_;
  std::map<uint32_t, Rank> ranks_;
  Duration saved_ = kMostSaved;
  Time saved_at_ = Time::min();
  uint64_t scanned_ = 0;
  uint64_t skipped_ = 0;
  WakeTimer timer_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_LOGS_OUTPUT_WATCH_H_
