#include "core/model/spec.h"

#include "core/model/launch.h"

namespace lockstep::core {

int64_t WorldSize(const Spec& spec) {
  return int64_t{spec.num_machines} * spec.processes_per_machine;
}

PreflightLimits Preflight::limits() const {
  const Figures least{min_gflops, min_memory_gbps, min_disk_gbps, min_link_gbps};
  return {.margin = margin, .least = least};
}

int ProcessesStarted(const Spec& spec) {
  return LaunchOf(spec) == Launch::kPerMachine ? 1 : spec.processes_per_machine;
}

}  // namespace lockstep::core
