// lockstep-judge: what core says of many TrainingJobs, for tests that ask an API server the same.
//
// Reads a job in JSON a line from standard input and answers each with a line: a JSON list of
// {"path", "message"}, one for each error that `lockstep validate` would show. With --names it prints
// the names that core reserves or knows, which the CRD's rules repeat.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/job/environment.h"
#include "core/job/launcher.h"
#include "core/job/names.h"
#include "core/job/parse.h"
#include "core/job/signals.h"
#include "core/job/validate.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

Json Errors(const std::vector<core::Problem>& problems) {
  Json errors = Json::array();
  for (const core::Problem& problem : problems) {
    if (problem.severity != core::Severity::kError) continue;
    errors.push_back({{"path", problem.path}, {"message", problem.message}});
  }
  return errors;
}

Json Judge(std::string_view text) {
  core::ParseResult parsed = core::ParseJson(text);
  if (parsed.job) {
    core::AddProblems(core::Validate(*parsed.job, core::Target::kCluster), &parsed.problems);
  }
  return Errors(parsed.problems);
}

Json Names() {
  Json labels = Json::array();
  for (const auto& [label, value] : core::JobLabels("")) labels.push_back(label);
  const auto reserved = core::ReservedNames();
  return {{"variables", std::vector<std::string_view>(reserved.begin(), reserved.end())},
          {"launchers", core::LauncherNames()},
          {"signals", core::SignalNameList()},
          {"labels", std::move(labels)}};
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--names") {
    std::cout << lockstep::Names().dump() << "\n";
    return 0;
  }
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << lockstep::Judge(line).dump() << "\n";
  }
  return 0;
}
