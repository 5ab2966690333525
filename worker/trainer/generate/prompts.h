// Prompts, and the texts that a model makes of them.
#ifndef LOCKSTEP_WORKER_TRAINER_GENERATE_PROMPTS_H_
#define LOCKSTEP_WORKER_TRAINER_GENERATE_PROMPTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "worker/trainer/collectives/collectives.h"

namespace lockstep::trainer {

// The lines of all files that `globs` name, in the files' order; empty lines are left out.
// kNotFound names a glob that fits nothing.
Result<std::vector<std::string>> ReadPrompts(const std::vector<std::string>& globs);

// {"prompt": ..., "text": ...}: bytes that are no UTF-8 are replaced.
std::string ResultLine(std::string_view prompt, std::string_view text);

// Everybody's part, in rank order, at rank 0; elsewhere nothing.
Result<std::string> GatherTexts(const std::string& mine, collectives::Communicator& all);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_GENERATE_PROMPTS_H_
