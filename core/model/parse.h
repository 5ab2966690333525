// Reading a TrainingJob from YAML or JSON. Every input gives a job, problems, or both. Nothing
// throws or hangs, and memory stays within a small multiple of the input.
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
  // Absent only when the text is no document. A field that could not be read holds its default, so
  // that Validate can still find what else is wrong.
  std::optional<TrainingJob> job;
  std::vector<Problem> problems;

  bool ok() const { return job.has_value() && !HasErrors(problems); }
};

ParseResult ParseYaml(std::string_view text);
ParseResult ParseJson(std::string_view text);
// A job from an API server of any version (ReadJson of its text). Its metadata may hold fields that
// are unknown here.
ParseResult ReadStoredJob(Node document);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_MODEL_PARSE_H_
