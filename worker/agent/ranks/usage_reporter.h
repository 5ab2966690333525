// UsageReporter: measures every five seconds what the machine's ranks use, and which of them work.
#ifndef LOCKSTEP_WORKER_AGENT_RANKS_USAGE_REPORTER_H_
#define LOCKSTEP_WORKER_AGENT_RANKS_USAGE_REPORTER_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/wake_timer.h"
#include "base/time.h"
#include "core/terms/usage.h"
#include "worker/agent/metrics/usage_meter.h"
#include "worker/agent/ranks/activity_meter.h"
#include "worker/agent/ranks/rank_bindings.h"

namespace lockstep::agent {

class UsageReporter {
 public:
  static constexpr Duration kEvery = seconds(5);

  // `ranks`: those whose processes are measured with their descendants; one without a process is
  // left out. None while no rank may live: then nothing is measured and `on_usage` is not called.
  UsageReporter(EventLoop* loop, std::function<std::vector<RankView>()> ranks,
                std::function<void(const core::Usage&, const core::RankActivity&)> on_usage,
                Duration every = kEvery);

 private:
  void Measure();

  std::function<std::vector<RankView>()> ranks_;
  std::function<void(const core::Usage&, const core::RankActivity&)> on_usage_;
  Duration every_;
  UsageMeter usage_;
  ActivityMeter activity_;
  WakeTimer timer_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_RANKS_USAGE_REPORTER_H_
