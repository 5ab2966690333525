// Metrics: what `GET /metrics` answers, in Prometheus' text format. docs/metrics.md lists it.
//
//   Metrics metrics({.trainingjob = "gpt", .machine = 3, .version = "0.1.0"});
//   metrics.ObserveStep(rank, milliseconds(120));            // as it happens
//   respond.Send({.content_type = Metrics::kContentType, .body = metrics.Scrape(snapshot)});
//
// State is read when a scrape asks for it, from a snapshot that the agent fills; only durations are
// observed as they occur. Labels are trainingjob, machine and rank, and a few with a fixed set of
// values; a label named job, instance, namespace, pod, container or node would be renamed by the
// scraper and is never used. Counters never fall within the life of an agent. Bounded: 64 reported
// names a machine. One thread.
#ifndef LOCKSTEP_WORKER_AGENT_METRICS_METRICS_H_
#define LOCKSTEP_WORKER_AGENT_METRICS_METRICS_H_

#include <prometheus/histogram.h>

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/failure/failure.h"
#include "core/gang/coordinator.h"
#include "core/gang/messages.h"
#include "worker/agent/metrics/machine_stats.h"
#include "worker/agent/metrics/metrics_goodput.h"

namespace lockstep::agent {

// What a scrape shows, as the agent knows it at that moment. A field that is empty leaves its
// metric out.
struct RankSnapshot {
  uint32_t rank = 0;  // global; each at most once in a snapshot
  bool up = false;
  std::optional<ProcessStats> process;  // of the running process
  core::Binding binding = core::Binding::kUnknown;
  // Of this generation; as in core::RankProgress, 0 and NaN are "not said".
  core::RankProgress progress;
  std::optional<Duration> progress_age;    // since its last progress line
  std::map<std::string, double> reported;  // ProgressReport::metrics
};

// The whole job's; machine 0 only.
struct GangSnapshot {
  core::CoordinatorPhase phase = core::CoordinatorPhase::kGathering;
  core::FailurePolicy policy;
  std::vector<core::GenerationRecord> history;  // as the coordinator keeps it
  GoodputDurations goodput{};
  int64_t lost_steps = 0;
  int64_t commits_granted = 0;
  int64_t commits_refused = 0;
  std::optional<Duration> checkpoint_age;  // since the last one granted
};

struct MetricsSnapshot {
  core::Generation generation;
  core::MemberPhase phase = core::MemberPhase::kJoining;
  core::Counters counters;
  uint64_t process_restarts = 0;
  // Of the ranks' output.
  std::optional<uint64_t> log_lines;
  uint64_t log_bytes = 0;
  uint64_t console_dropped_bytes = 0;
  std::optional<uint64_t> files_dropped_bytes;
  uint64_t refused_connections = 0;
  std::optional<ProcessStats> agent;
  MachineStats machine;
  std::vector<RankSnapshot> ranks;
  std::optional<GangSnapshot> gang;
};

class Metrics {
 public:
  struct Identity {
    std::string trainingjob;
    uint32_t machine = 0;
    std::string version;  // of the agent
  };

  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";
  static constexpr size_t kMaxReportedNames = 64;
  static constexpr size_t kMaxReportedName = 128;  // bytes

  explicit Metrics(Identity identity);

  // A member answered a PING. Machine 0 only.
  void ObserveHeartbeat(Duration round_trip);
  // Time a step of `rank` took, from one progress line to the next.
  void ObserveStep(uint32_t rank, Duration step);
  // Counts restarts and recoveries that are new in `history`. Scrape does it too; calling it at the
  // end of each generation loses none when scrapes are rare.
  void ObserveHistory(const std::vector<core::GenerationRecord>& history);

  // The whole answer.
  std::string Scrape(const MetricsSnapshot& snapshot);

 private:
  class Page;

  enum RecoveryPhase { kDetect, kStop, kSpawn, kFirstStep };
  static constexpr size_t kRecoveryPhases = 4;
  struct Recovery {
    explicit Recovery(const char* name);
    const char* phase;
    prometheus::Histogram seconds;
    core::Generation last;  // the last generation observed: each counts once
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

  void ObserveRecovery(RecoveryPhase phase, core::Generation generation,
                       const std::optional<Time>& from, const std::optional<Time>& to);
  // False for names beyond the first kMaxReportedNames, and for those too long.
  bool Shown(const std::string& name);

  void AddAgent(const MetricsSnapshot& snapshot, Page* page) const;
  void AddMachine(const MachineStats& machine, Page* page) const;
  void AddRanks(const MetricsSnapshot& snapshot, Page* page);
  void AddRank(const RankSnapshot& rank, Page* page);
  void AddSteps(Page* page) const;
  void AddGang(const GangSnapshot& gang, const core::Counters& counters, Page* page) const;

  Identity identity_;
  prometheus::Histogram heartbeats_;
  prometheus::Histogram steps_;
  std::map<uint32_t, StepTimes> step_times_;
  std::map<uint32_t, CpuTime> cpu_times_;
  std::set<std::string> reported_names_;

  std::array<Recovery, kRecoveryPhases> recoveries_;
  std::array<uint64_t, core::kCauseCount> restarts_{};
  core::Generation last_restarted_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_METRICS_METRICS_H_
