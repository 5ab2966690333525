// The command line of the built-in trainer, which a job without a command runs. It can be run by
// hand as well.
#ifndef LOCKSTEP_CORE_PLAN_TRAINER_COMMAND_H_
#define LOCKSTEP_CORE_PLAN_TRAINER_COMMAND_H_

#include <string>
#include <string_view>
#include <vector>

#include "core/model/spec.h"

namespace lockstep::core {

// The program's name. It is looked for beside the agent first, then in the PATH.
inline constexpr std::string_view kTrainerProgram = "lockstep-trainer";

// "lockstep-trainer train --model=nano --data=/data/*.txt ...", with what `trainer` says, defaults
// too.
std::vector<std::string> TrainerCommand(const Trainer& trainer);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_PLAN_TRAINER_COMMAND_H_
