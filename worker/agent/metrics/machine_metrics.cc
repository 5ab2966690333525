#include "worker/agent/metrics/machine_metrics.h"

#include <unistd.h>

#include "base/version.h"
#include "worker/agent/metrics/network_stats.h"

namespace lockstep::agent {

std::vector<prometheus::MetricFamily> MachineMetrics::Collect() const {
  const core::Generation generation = member_->generation();
  Families page;
  page.Gauge("lockstep_build_info", "1; the label names the agent's version.", 1,
             {{"version", kVersion}})
      .Gauge("lockstep_generation_attempt",
             "Attempt of the machine 0 that announced this machine's latest generation; 0 before "
             "any.",
             generation.attempt)
      .Gauge("lockstep_generation",
             "Number of this machine's latest generation under its attempt; 0 before any.",
             generation.n);
  for (int i = 0; i < core::kMemberPhaseCount; ++i) {
    const auto phase = static_cast<core::MemberPhase>(i);
    page.Gauge("lockstep_machine_phase",
               "1 for the phase this machine is in, 0 for every other one.",
               phase == member_->phase() ? 1 : 0, {{"phase", core::ToString(phase)}});
  }
  if (const std::optional<ProcessStats> agent = stats_.ReadProcess(getpid())) {
    page.Counter("lockstep_agent_cpu_seconds_total", "CPU time of the agent itself.",
                 agent->cpu_seconds)
        .Gauge("lockstep_agent_resident_memory_bytes", "Resident memory of the agent itself.",
               agent->resident_bytes);
  }
  AddNetwork(&page);
  const MachineStats container = stats_.Read();
  const char* memory_events =
      "Times the memory limit was reached (oom; cgroup v2 only), and processes were killed for it "
      "(oom_kill).";
  return page
      .Gauge("lockstep_memory_bytes",
             "Memory charged to the container's cgroup, page cache and /dev/shm included.",
             container.memory_bytes)
      .Gauge("lockstep_memory_limit_bytes", "The container's memory limit; absent without one.",
             container.memory_limit_bytes)
      .Counter("lockstep_memory_events_total", memory_events, container.oom_events,
               {{"event", "oom"}})
      .Counter("lockstep_memory_events_total", memory_events, container.oom_kills,
               {{"event", "oom_kill"}})
      .Counter("lockstep_cpu_throttled_seconds_total",
               "Time in which the CPU limit stopped the container's threads.",
               container.cpu_throttled_seconds)
      .Gauge("lockstep_shared_memory_used_bytes", "Used space of /dev/shm.",
             container.shared_memory_used_bytes)
      .Gauge("lockstep_shared_memory_size_bytes", "Size of /dev/shm.",
             container.shared_memory_size_bytes)
      .Take();
}

void MachineMetrics::AddNetwork(Families* page) const {
  const NetworkStats network = ReadNetworkStats(root_);
  for (const LinkBytes& link : network.interfaces) {
    page->Counter("lockstep_machine_network_receive_bytes_total",
                  "Bytes received by an interface of the machine's network namespace, the loopback "
                  "left out; at most 64 interfaces.",
                  link.received, {{"interface", link.name}})
        .Counter("lockstep_machine_network_transmit_bytes_total",
                 "Bytes sent by an interface of the machine's network namespace, the loopback left "
                 "out; at most 64 interfaces.",
                 link.sent, {{"interface", link.name}});
  }
  for (const LinkBytes& port : network.rdma_ports) {
    page->Counter("lockstep_machine_rdma_receive_bytes_total",
                  "Bytes received by a port of an RDMA adapter of the machine, which no interface "
                  "counts; at most 64 ports.",
                  port.received, {{"port", port.name}})
        .Counter("lockstep_machine_rdma_transmit_bytes_total",
                 "Bytes sent by a port of an RDMA adapter of the machine, which no interface "
                 "counts; at most 64 ports.",
                 port.sent, {{"port", port.name}});
  }
}

}  // namespace lockstep::agent
