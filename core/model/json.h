// Writing a TrainingJob: fields in their documented order, defaults left out unless asked for.
// What is written reads back as an equal job.
#ifndef LOCKSTEP_CORE_MODEL_JSON_H_
#define LOCKSTEP_CORE_MODEL_JSON_H_

#include <string>

#include "core/model/spec.h"
#include "core/record/writer.h"

namespace lockstep::core {

// One line, for the agent.
std::string ToJson(const TrainingJob& job, Defaults defaults = Defaults::kOmit);
// For people.
std::string ToYaml(const TrainingJob& job, Defaults defaults = Defaults::kOmit);
Node ToNode(const TrainingJob& job, Defaults defaults = Defaults::kOmit);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_MODEL_JSON_H_
