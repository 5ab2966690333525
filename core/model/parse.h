// Reading a TrainingJob from YAML or JSON. Any input whatever gives a job, problems, or both;
// nothing throws, hangs or grows beyond a small multiple of the input.
#ifndef LOCKSTEP_CORE_MODEL_PARSE_H_
#define LOCKSTEP_CORE_MODEL_PARSE_H_

#include <optional>
#include <string_view>
#include <vector>

#include "core/model/spec.h"
#include "core/text/node.h"
#include "core/text/problem.h"

namespace lockstep::core {

struct ParseResult {
  // There unless the text is no document at all. With errors among the problems it holds defaults
  // where a field could not be read, so that Validate can still find what else is wrong.
  std::optional<TrainingJob> job;
  std::vector<Problem> problems;

  bool ok() const { return job.has_value() && !HasErrors(problems); }
};

ParseResult ParseYaml(std::string_view text);
ParseResult ParseJson(std::string_view text);
// A job as an API server of whatever version hands it out (ReadJson of its text): metadata may hold
// fields that we don't know.
ParseResult ReadStoredJob(Node document);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_MODEL_PARSE_H_
