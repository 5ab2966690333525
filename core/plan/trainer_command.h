// The command line of the built-in trainer, which a job without a command runs. It holds
// spec.trainer as JSON, by the table that read it from the job, and can be run by hand as well.
#ifndef LOCKSTEP_CORE_PLAN_TRAINER_COMMAND_H_
#define LOCKSTEP_CORE_PLAN_TRAINER_COMMAND_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/model/spec.h"

namespace lockstep::core {

// The program's name. It is looked for beside the agent first, then in the PATH.
inline constexpr std::string_view kTrainerProgram = "lockstep-trainer";

// lockstep-trainer job '{"data":["/data/*.txt"]}', of a job that has a spec.trainer: what is at its
// default is left out. A job that asks for GPUs trains on them or not at all: its device is not
// Auto, which would make do with CPUs.
std::vector<std::string> TrainerCommand(const Spec& spec);
// That JSON. Invalid, with the field, when a part of it is wrong or unknown: what this trainer does
// not know it cannot do.
Result<Trainer> ParseTrainer(std::string_view json);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_PLAN_TRAINER_COMMAND_H_
