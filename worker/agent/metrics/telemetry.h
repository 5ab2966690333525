// Telemetry: gathers what `/metrics` shows from the parts of an agent as things happen, and fills
// the snapshot when a scrape asks. Metrics (metrics.h) knows the format, Goodput what time was
// spent on; this knows where each number comes from. One thread.
#ifndef LOCKSTEP_WORKER_AGENT_METRICS_TELEMETRY_H_
#define LOCKSTEP_WORKER_AGENT_METRICS_TELEMETRY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/time.h"
#include "core/gang/coordinator.h"
#include "core/gang/member.h"
#include "core/gang/messages.h"
#include "worker/agent/gang/gang_listener.h"
#include "worker/agent/logs/console.h"
#include "worker/agent/logs/log_files.h"
#include "worker/agent/logs/log_pump.h"
#include "worker/agent/metrics/machine_stats.h"
#include "worker/agent/metrics/metrics.h"
#include "worker/agent/metrics/metrics_goodput.h"
#include "worker/agent/ranks/local_ranks.h"
#include "worker/agent/ranks/progress_message.h"

namespace lockstep::agent {

class Telemetry {
 public:
  // What is read at a scrape. Pointers that may be null say so.
  struct Sources {
    const core::Member* member = nullptr;
    const core::Coordinator* coordinator = nullptr;  // null on machines other than 0
    const LocalRanks* ranks = nullptr;
    const LogPump* logs = nullptr;
    const LogFiles* log_files = nullptr;  // null without logs.path
    const Console* console = nullptr;
    const GangListener* listener = nullptr;
  };

  Telemetry(std::string trainingjob, uint32_t machine, Time born);

  // A generation's processes are started here.
  void OnSpawn(uint32_t processes);
  // Returns what the coordinator is told: with the rate of tokens, smoothed over a few reports.
  core::RankProgress OnReport(Time now, const ProgressReport& report);

  // Machine 0: a message came from a member (`local`: its own), or went to one; the coordinator's
  // state may have changed.
  void OnHeard(Time now, const core::Message& message, bool local);
  void OnSaid(Time now, const core::Message& message);
  void OnChange(Time now, const core::Coordinator& coordinator);

  std::string Scrape(Time now, const Sources& sources);

 private:
  // Of one rank, in the running generation.
  struct Pace {
    Time at{};
    core::RankProgress progress;
    std::map<std::string, double> reported;
  };

  Metrics metrics_;
  MachineStatsReader stats_;
  Goodput goodput_;
  core::Generation generation_;  // the coordinator's
  std::map<uint32_t, Pace> paces_;
  int64_t commits_granted_ = 0;
  int64_t commits_refused_ = 0;
  std::optional<Time> last_commit_;  // granted
  uint64_t started_ = 0;             // processes, by this agent
  uint64_t first_started_ = 0;       // of them, in its first generation
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_METRICS_TELEMETRY_H_
