// The options of sbatch and srun, which are mostly the same, and what they ask for.
#ifndef LOCKSTEP_CLI_CONVERT_SLURM_OPTIONS_H_
#define LOCKSTEP_CLI_CONVERT_SLURM_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/convert/job_builder.h"

namespace lockstep::convert {

// What is known of a job's nodes and tasks. srun's options are laid over the script's.
struct SlurmAllocation {
  std::optional<int64_t> nodes;
  std::optional<int64_t> tasks;
  std::optional<int64_t> tasks_per_node;
  std::optional<int64_t> tasks_per_gpu;
  std::optional<int64_t> cpus_per_task;
  std::optional<int64_t> cpus_per_gpu;
  std::optional<int64_t> gpus;  // of all nodes
  std::optional<int64_t> gpus_per_node;
  std::optional<int64_t> gpus_per_task;
  std::string memory;  // of a node, as a Quantity; these three are empty where nothing is said
  std::string memory_per_cpu;
  std::string memory_per_gpu;
  std::string named_nodes;  // --nodelist n[1-4]

  int64_t Nodes() const;
  std::optional<int64_t> Tasks() const;
  int64_t TasksPerNode() const;
  std::optional<int64_t> GpusPerNode() const;
  Size TaskSize() const;
  // Names of nodes that alone say how many they are.
  void WarnOfNamedNodes(JobBuilder& builder) const;
};

// Reads options from `words` into `allocation` and the builder's job, with remarks and errors at
// `position`; what stands behind them is returned. `launcher`: sbatch or srun.
std::vector<std::string> ReadSlurmOptions(const std::vector<std::string>& words,
                                          const char* launcher, Position position,
                                          SlurmAllocation& allocation, JobBuilder& builder);

// Divides a node's GPUs, cores and memory among the processes of the builder's job.
void WriteSlurmResources(const SlurmAllocation& allocation, JobBuilder& builder);

}  // namespace lockstep::convert

#endif  // LOCKSTEP_CLI_CONVERT_SLURM_OPTIONS_H_
