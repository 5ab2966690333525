// The reports of ranks in columns by machine, for gangs with too many ranks for a row each. Pure.
#ifndef LOCKSTEP_CORE_GANG_DIAGNOSIS_MACHINE_PROGRESS_H_
#define LOCKSTEP_CORE_GANG_DIAGNOSIS_MACHINE_PROGRESS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "core/gang/protocol/messages.h"
#include "core/terms/members.h"

namespace lockstep::core {

// Each column is as long as `machine`, or empty. Numbers have six digits.
struct MachineProgress {
  std::vector<uint32_t> machine;  // machines with a rank that reports; ascending
  std::vector<uint32_t> ranks;    // that report
  std::vector<int64_t> step;      // lowest step of its ranks
  std::vector<int64_t> step_most;
  std::vector<double> loss;  // lowest of its ranks; empty unless all machines report one
  std::vector<double> loss_most;
  std::vector<double> tokens_per_second;  // of its ranks together
  std::vector<int64_t> waits;             // as in RankProgress, for the rank that waited least
  std::vector<double> waited;
  std::vector<double> waited_most;  // for the rank that waited most

  friend bool operator==(const MachineProgress&, const MachineProgress&) = default;
};

// `members`: the machines of the generation; empty: all. `processes`: of each.
MachineProgress ProgressByMachine(const std::map<uint32_t, RankProgress>& ranks, uint32_t processes,
                                  const Members& members);
// Whether all columns have matching lengths.
bool IsWhole(const MachineProgress& progress);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_DIAGNOSIS_MACHINE_PROGRESS_H_
