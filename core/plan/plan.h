// Plan: what each machine and rank of a job gets. `lockstep plan` prints it, and the operator
// builds pods from it.
#ifndef LOCKSTEP_CORE_PLAN_PLAN_H_
#define LOCKSTEP_CORE_PLAN_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/failure/failure.h"
#include "core/model/spec.h"
#include "core/plan/environment.h"
#include "core/plan/launcher.h"

namespace lockstep::core {

// rank = machine x processesPerMachine + local rank, for the life of the job.
int64_t RankOf(const Spec& spec, int machine, int local_rank);

struct PlannedProcess {
  int local_rank = 0;
  int64_t rank = 0;       // of the first of its ranks under PerMachine
  Variables environment;  // only what differs from process to process
};

struct PlannedMachine {
  int index = 0;
  std::string name;  // pod and host name of the first epoch
  int64_t first_rank = 0;
  int64_t last_rank = 0;
  std::vector<PlannedProcess> processes;
};

struct PlannedRule {
  FailureRule rule;
  bool is_default = false;
};

struct Plan {
  int64_t world_size = 0;
  int num_machines = 0;
  int processes_per_machine = 0;
  Launch launch = Launch::kPerProcess;
  std::vector<std::string> command;
  Variables environment;  // the same for every process; <...> stands for what is known at the start
  std::vector<PlannedMachine> machines;
  std::vector<PlannedRule> rules;       // in the order they are tried
  std::vector<std::string> torchrun;    // empty when there is no equal command
  std::vector<std::string> accelerate;  // likewise
};

// `job` has passed Validate.
Plan MakePlan(const TrainingJob& job);

// The command that would start machine <machine> of this job under torchrun or `accelerate
// launch`; empty if the job names no command or another launcher, or if that launcher has no such
// command: accelerate starts one process on CPUs.
std::vector<std::string> EquivalentTorchrun(const TrainingJob& job);
std::vector<std::string> EquivalentAccelerate(const TrainingJob& job);

struct Recommendation {
  int num_machines = 1;
  int processes_per_machine = 1;
  std::string reason;
  std::vector<std::string> warnings;  // about the job as it is
};

// How to split a job on one computer with `cores` cores (>= 1) and `gpus` GPUs: one machine first,
// no more processes than cores or GPUs.
Recommendation Recommend(const TrainingJob& job, int cores, int gpus);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_PLAN_PLAN_H_
