// Any bytes at all: a job or its problems, and what can be read can be written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cli/convert/convert.h"
#include "core/model/json.h"
#include "core/model/parse.h"
#include "core/plan/launcher.h"
#include "core/plan/plan.h"
#include "core/text/text.h"
#include "core/validate/validate.h"

namespace {

using lockstep::core::Defaults;
using lockstep::core::ParseResult;
using lockstep::core::Target;
using lockstep::core::TrainingJob;

void Demand(bool holds, const char* what, const std::string& text) {
  if (holds) return;
  std::fprintf(stderr, "%s:\n%s\n", what, text.c_str());
  std::abort();
}

void DemandRoundTrip(const TrainingJob& job) {
  const std::string yaml = ToYaml(job, Defaults::kWrite);
  const ParseResult from_yaml = lockstep::core::ParseYaml(yaml);
  if (yaml.size() < lockstep::core::kMaxDocumentBytes) {
    Demand(from_yaml.ok() && *from_yaml.job == job, "the YAML doesn't read back", yaml);
  }
  const std::string json = ToJson(job);
  const ParseResult from_json = lockstep::core::ParseJson(json);
  if (json.size() < lockstep::core::kMaxDocumentBytes) {
    Demand(from_json.ok() && *from_json.job == job, "the JSON doesn't read back", json);
  }
}

void Check(const ParseResult& result) {
  if (!result.job) {
    Demand(HasErrors(result.problems), "no job and no error", "");
    return;
  }
  if (result.ok()) DemandRoundTrip(*result.job);
  const auto problems = Validate(*result.job, Target::kLocal, 1);
  Validate(*result.job, Target::kCluster);
  IgnoredLocally(*result.job);
  // A plan of 65,536 processes is right, and slow.
  if (!HasErrors(problems) && WorldSize(result.job->spec) < 64) MakePlan(*result.job);
}

// A job that reads and validates, or an error.
void CheckConverted(const lockstep::convert::ConvertResult& result) {
  Demand(result.yaml.empty() == HasErrors(result.problems), "a job and an error", result.yaml);
  if (result.yaml.empty() || result.yaml.size() >= lockstep::core::kMaxDocumentBytes) return;
  const ParseResult job = lockstep::core::ParseYaml(result.yaml);
  Demand(job.ok() && !HasErrors(Validate(*job.job, Target::kLocal)), "convert's job is none",
         result.yaml);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Check(lockstep::core::ParseYaml(text));
  Check(lockstep::core::ParseJson(text));
  CheckConverted(lockstep::convert::Convert(text));
  CheckConverted(lockstep::convert::Convert(lockstep::core::SplitShellWords(text)));
  return 0;
}
