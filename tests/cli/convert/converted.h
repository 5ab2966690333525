// What the tests of `lockstep convert` ask of its results.
#ifndef LOCKSTEP_TESTS_CLI_CONVERT_CONVERTED_H_
#define LOCKSTEP_TESTS_CLI_CONVERT_CONVERTED_H_

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "cli/convert/convert.h"
#include "core/model/parse.h"
#include "core/plan/launcher.h"
#include "core/validate/validate.h"

namespace lockstep::convert {

inline std::string Problems(const ConvertResult& result) {
  return core::Format(result.problems, "source");
}

// What was converted, read and validated as any TrainingJob is.
inline core::Spec SpecOf(const ConvertResult& result) {
  EXPECT_FALSE(core::HasErrors(result.problems)) << Problems(result);
  const core::ParseResult parsed = core::ParseYaml(result.yaml);
  EXPECT_TRUE(parsed.ok()) << core::Format(parsed.problems, "job.yaml") << result.yaml;
  if (!parsed.job) return {};
  core::TrainingJob job = *parsed.job;
  if (job.spec.image.empty()) job.spec.image = "image";  // a command line names none
  const auto problems = core::Validate(job, core::Target::kCluster);
  EXPECT_FALSE(core::HasErrors(problems)) << core::Format(problems, "job.yaml") << result.yaml;
  return parsed.job->spec;
}

inline ConvertResult ConvertLine(const std::string& line) {
  return Convert(core::SplitShellWords(line));
}

inline std::map<std::string, std::string> Env(const core::Spec& spec) {
  std::map<std::string, std::string> env;
  for (const core::EnvVar& entry : spec.env) env[entry.name] = entry.value;
  return env;
}

}  // namespace lockstep::convert

#endif  // LOCKSTEP_TESTS_CLI_CONVERT_CONVERTED_H_
