#include "worker/agent/ranks/activity_meter.h"

#include <algorithm>

#include "worker/agent/parked/parked_resources.h"
#include "worker/topology/cgroup.h"
#include "worker/topology/small_file.h"

namespace lockstep::agent {

// Of read(), write() and the like, of whatever file; with children that were waited for. 0 if the
// kernel does not show them.
double ActivityMeter::BytesOf(pid_t pid) const {
  const std::string path = root_ + "/proc/" + std::to_string(pid) + "/io";
  const std::string text = topology::ReadSmallFile(path).value_or("");
  double bytes = 0;
  for (const char* name : {"rchar", "wchar"}) {
    bytes += static_cast<double>(topology::NumberOf(text, std::string(name) + ":").value_or(0));
  }
  return bytes;
}

core::RankActivity ActivityMeter::Measure(Time now,
                                          const std::map<uint32_t, std::vector<pid_t>>& ranks) {
  core::RankActivity activity;
  const double passed = at_ ? Seconds(now - *at_) : 0;
  std::map<std::pair<pid_t, uint64_t>, Count> counts;
  for (const auto& [rank, processes] : ranks) {
    Count grown;
    for (const pid_t pid : processes) {
      const std::optional<ProcessStats> process = stats_.ReadProcess(pid);
      if (!process) continue;
      const auto key = std::pair(pid, process->start_ticks);
      const Count count{process->cpu_seconds + process->children_seconds, BytesOf(pid)};
      const auto before = then_.find(key);
      const Count base = before == then_.end() ? Count{} : before->second;
      grown.cpu_seconds += count.cpu_seconds - base.cpu_seconds;
      grown.bytes += count.bytes - base.bytes;
      counts[key] = count;
    }
    ++activity.ranks;
    if (passed <= 0) {
      ++activity.unknown;
      continue;
    }
    const bool moves = grown.bytes >= kWorkingBytes * passed;
    const bool computes = grown.cpu_seconds >= kWorkingCores * passed;
    if (!moves && !computes) continue;
    const bool uses_gpu = std::ranges::any_of(
        processes, [this](pid_t pid) { return OpenAccelerator(root_, pid).has_value(); });
    if (!moves && uses_gpu) {
      ++activity.unknown;
      continue;
    }
    if (activity.working++ == 0) activity.first_working = rank;
  }
  at_ = now;
  then_ = std::move(counts);
  return activity;
}

}  // namespace lockstep::agent
