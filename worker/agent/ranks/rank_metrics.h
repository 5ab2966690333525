// RankMetrics: what /metrics shows of this machine's ranks: their processes as the kernel counts
// them, and what they report of themselves. Bounded: 64 reported names a machine, others are
// counted and forgotten. One thread.
#ifndef LOCKSTEP_WORKER_AGENT_RANKS_RANK_METRICS_H_
#define LOCKSTEP_WORKER_AGENT_RANKS_RANK_METRICS_H_

#include <prometheus/histogram.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/gang/protocol/messages.h"
#include "core/scan/progress_scanner.h"
#include "worker/agent/metrics/families.h"
#include "worker/agent/metrics/machine_stats.h"
#include "worker/agent/rank_socket/progress_message.h"
#include "worker/agent/ranks/local_ranks.h"

namespace lockstep::agent {

// The figures of one report, or of a line of output, for the rules about metrics: also those that
// are not finite.
std::vector<core::NamedFigure> FiguresIn(const ProgressReport& report);
std::vector<core::NamedFigure> FiguresIn(const core::LineFigures& figures);

class RankMetrics : public prometheus::Collectable {
 public:
  static constexpr size_t kMaxReportedNames = 64;
  static constexpr size_t kMaxReportedName = 128;  // bytes

  using Views = std::function<std::vector<RankView>()>;

  // `views` are asked for at each scrape.
  RankMetrics(Views views, std::function<Time()> now,
              MachineStatsReader stats = MachineStatsReader());

  // A generation's processes begin here; `kept` of them are those of the last one.
  void OnSpawn(uint32_t processes, uint32_t kept = 0);
  // Returns what the coordinator is told: with the rate of tokens, smoothed over a few reports.
  core::RankProgress OnReport(const ProgressReport& report);
  // Likewise, of what it printed: rates are those printed.
  core::RankProgress OnOutput(uint32_t rank, const core::OutputProgress& output);
  // Keeps its figures and nothing about its step.
  void OnFigures(const ProgressReport& report);

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  // Of one rank, in the running generation.
  struct Pace {
    Time at{};
    Time worked{};                // the last report of a step, of tokens or of a validation
    core::RankProgress progress;  // 0 and NaN are "not said"
    std::map<std::string, double> reported;
  };
  struct StepTimes {
    uint64_t count = 0;
    double seconds = 0;
  };
  // CPU time of the processes a rank has had.
  struct CpuTime {
    uint64_t start_ticks = 0;
    double earlier = 0;  // processes before this one
    double current = 0;
    double total() const { return earlier + current; }
  };

  void Keep(const ProgressReport& report, Pace* pace);
  // Of the time that it waited in collectives.
  void AddWait(const ProgressReport& report, core::RankProgress* progress);
  // Time a step of `rank` took, from one report to the next.
  void ObserveStep(uint32_t rank, Duration step);
  // Of what it reports under names of its own: what people ask for.
  void TakeFigures(const ProgressReport& report, core::RankProgress* progress);
  // False for names beyond the first kMaxReportedNames, and for those too long.
  bool IsKept(const std::string& name);
  void AddProcess(const RankView& view, Families* page) const;
  void AddPlacement(const RankView& view, Families* page) const;
  void AddProgress(const Pace& pace, Families* page) const;
  static void AddValidation(const Pace& pace, Families* page);

  Views views_;
  std::function<Time()> now_;
  MachineStatsReader stats_;
  std::map<uint32_t, Pace> paces_;
  uint64_t started_ = 0;        // processes, by this agent
  uint64_t first_started_ = 0;  // of them, in its first generation
  uint64_t kept_ = 0;           // that lived on into another generation, once for each
  prometheus::Histogram steps_;
  std::map<uint32_t, StepTimes> step_times_;
  std::set<std::string> reported_names_;
  std::set<std::string> figure_names_;  // of them, those that the coordinator is told
  uint64_t left_out_ = 0;               // values under other names
  double throttled_ = 0;                // this container, in seconds, when it was last looked
  Time throttled_read_ = Time::min() / 2;
  // As far as scrapes saw them.
  mutable std::map<uint32_t, CpuTime> cpu_times_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_RANKS_RANK_METRICS_H_
