#include "worker/agent/metrics/usage_meter.h"

#include <algorithm>

#include "worker/agent/metrics/network_stats.h"

namespace lockstep::agent {

core::Usage UsageMeter::Measure(Time now, const std::vector<pid_t>& processes) {
  core::Usage usage;
  const double passed = at_ ? Seconds(now - *at_) : 0;
  double worked = 0;
  uint64_t resident = 0;
  std::map<std::pair<pid_t, uint64_t>, double> cpu;
  for (const pid_t pid : processes) {
    const std::optional<ProcessStats> process = stats_.ReadProcess(pid);
    if (!process) continue;
    const auto key = std::pair(pid, process->start_ticks);
    const auto before = cpu_.find(key);
    worked += process->cpu_seconds - (before == cpu_.end() ? 0 : before->second);
    resident += process->resident_bytes.value_or(0);
    cpu[key] = process->cpu_seconds;
  }
  if (!processes.empty()) usage.memory = static_cast<int64_t>(resident);
  if (passed > 0)
    usage.cpu_millicores = static_cast<int64_t>(1000 * std::max(worked / passed, 0.0));
  std::optional<Network> network;
  const NetworkStats seen = ReadNetworkStats(root_);
  if (!seen.interfaces.empty() || !seen.rdma_ports.empty()) {
    network = Network{seen.received(), seen.sent()};
  }
  if (passed > 0 && network && network_) {
    // An interface that went away takes its count with it.
    const auto rate = [passed](uint64_t before, uint64_t after) {
      return after < before ? 0
                            : static_cast<int64_t>(static_cast<double>(after - before) / passed);
    };
    usage.received = rate(network_->received, network->received);
    usage.sent = rate(network_->sent, network->sent);
  }
  at_ = now;
  cpu_ = std::move(cpu);
  network_ = network;
  return usage;
}

}  // namespace lockstep::agent
