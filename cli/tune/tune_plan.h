// What `lockstep tune` tries: settings of a job, and the order of their trials. Pure.
#ifndef LOCKSTEP_CLI_TUNE_TUNE_PLAN_H_
#define LOCKSTEP_CLI_TUNE_TUNE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/model/spec.h"

namespace lockstep::cli {

// What the user wants to compare. Empty: as the job has it.
struct TuneChoices {
  std::vector<int32_t> machines;
  std::vector<int32_t> processes;  // on each machine
  std::vector<int32_t> threads;    // OMP_NUM_THREADS of each process
  std::vector<core::Bind> binds;
  std::vector<core::MemoryPolicy> memory_policies;
};

struct TuneSetting {
  int32_t machines = 1;
  int32_t processes = 1;
  std::optional<int32_t> threads;  // nullopt: what Lockstep or the job sets
  core::Bind bind = core::Bind::kNode;
  core::MemoryPolicy memory_policy = core::MemoryPolicy::kPreferred;

  int64_t ranks() const { return int64_t{machines} * processes; }
  // But for the number of ranks.
  bool IsLike(const TuneSetting& other) const;

  friend bool operator==(const TuneSetting&, const TuneSetting&) = default;
};

// "2 machines, 4 processes, 2 threads, bind Node"
std::string ToString(const TuneSetting& setting);

// Every combination, fewest ranks first.
std::vector<TuneSetting> SettingsOf(const core::TrainingJob& job, const TuneChoices& choices);

// 1, 2, 4, ... and `limit` (>= 1) itself.
std::vector<int32_t> PowersOfTwo(int32_t limit);

// `rounds` times each of 0 ... `settings` - 1. The order of each round is drawn by `seed`, so that
// a computer that gets slower does not make the last setting look slow.
std::vector<size_t> OrderOfTrials(size_t settings, int rounds, uint64_t seed);

// The job with this setting.
core::TrainingJob WithSetting(core::TrainingJob job, const TuneSetting& setting);

// The same for a trial. Its checkpoints go to `folder`, as far as the program asks Lockstep for
// their place, and none is resumed from. Nothing is restarted, replaced, parked, measured before or
// kept as a log.
core::TrainingJob TrialOf(core::TrainingJob job, const TuneSetting& setting,
                          const std::string& folder);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_TUNE_TUNE_PLAN_H_
