#include "worker/agent/ranks/usage_reporter.h"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>

#include "worker/agent/processes/descendants.h"

namespace lockstep::agent {
namespace {

constexpr size_t kMostMeasured = 4096;  // processes

}  // namespace

UsageReporter::UsageReporter(
    EventLoop* loop, std::function<std::vector<RankView>()> ranks,
    std::function<void(const core::Usage&, const core::RankActivity&)> on_usage, Duration every)
    : ranks_(std::move(ranks)),
      on_usage_(std::move(on_usage)),
      every_(every),
      timer_(loop, [this] { Measure(); }) {
  timer_.WakeAt(BootTime() + every_);
}

void UsageReporter::Measure() {
  timer_.WakeAt(BootTime() + every_);
  const std::vector<RankView> ranks = ranks_();
  if (ranks.empty()) return;
  std::vector<pid_t> processes;
  std::map<uint32_t, std::vector<pid_t>> by_rank;
  for (const RankView& rank : ranks) {
    if (rank.pid == 0) continue;
    std::vector<pid_t>& of_rank = by_rank[rank.rank];
    of_rank.push_back(rank.pid);
    for (const Descendant& each : DescendantsOf(rank.pid, {})) {
      if (processes.size() + of_rank.size() < kMostMeasured) of_rank.push_back(each.pid);
    }
    processes.insert(processes.end(), of_rank.begin(), of_rank.end());
  }
  const core::RankActivity activity = activity_.Measure(BootTime(), by_rank);
  on_usage_(usage_.Measure(BootTime(), processes), activity);
}

}  // namespace lockstep::agent
