// How much CPU time the cgroup of this process allows.
#ifndef LOCKSTEP_WORKER_TOPOLOGY_CPU_QUOTA_H_
#define LOCKSTEP_WORKER_TOPOLOGY_CPU_QUOTA_H_

#include <string>

namespace lockstep::topology {

struct CpuQuota {
  double cpus = 0;     // 1.5: one and a half CPUs' time; 0: no limit
  std::string source;  // the file that sets it, or what was found
};

// The tightest limit among this process's cgroup and those above it that can be seen below `root`:
// cpu.max of cgroup v2 ("max 100000", "150000 100000"), cpu.cfs_quota_us and cpu.cfs_period_us of
// v1.
CpuQuota ReadCpuQuota(const std::string& root);

}  // namespace lockstep::topology

#endif  // LOCKSTEP_WORKER_TOPOLOGY_CPU_QUOTA_H_
