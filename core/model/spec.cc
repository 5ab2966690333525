#include "core/model/spec.h"

#include <algorithm>

#include "core/model/launch.h"

namespace lockstep::core {

int64_t WorldSize(const Spec& spec) {
  return int64_t{spec.num_machines} * spec.processes_per_machine;
}

bool DealsOutBatch(const Spec& spec, int32_t machines) {
  if (!spec.trainer) return true;
  const int64_t each = std::max<int64_t>(spec.trainer->micro_batch_size.value_or(1), 1);
  const int64_t step = each * machines * spec.processes_per_machine;
  return step > 0 && spec.trainer->global_batch_size % step == 0;
}

int32_t LargestSize(const Spec& spec, int32_t machines) {
  if (machines >= spec.num_machines) return spec.num_machines;
  if (!spec.elastic) return 0;
  const std::vector<int32_t>& sizes = spec.elastic->sizes;
  for (int32_t size = machines; size >= std::max(spec.elastic->min_machines, 1); --size) {
    const bool listed = sizes.empty() || std::ranges::find(sizes, size) != sizes.end();
    if (listed && DealsOutBatch(spec, size)) return size;
  }
  return 0;
}

PreflightLimits Preflight::limits() const {
  const Figures least{min_gflops, min_memory_gbps, min_disk_gbps, min_link_gbps};
  return {.margin = margin, .least = least};
}

int ProcessesStarted(const Spec& spec) {
  return LaunchOf(spec) == Launch::kPerMachine ? 1 : spec.processes_per_machine;
}

}  // namespace lockstep::core
