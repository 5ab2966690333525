// lockstep-validator: what core says of many TrainingJobs, for tests that ask an API server, too.
//
// Reads a job in JSON a line from standard input and answers each with a line: a JSON list of
// {"path", "message"}, one for each error that `lockstep validate` would show. With --names: the
// fields that core knows, and the names that it reserves or knows, which the CRD repeats. With
// --specs: each job's spec as core understands it, less what is at its default.
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/failure/signals.h"
#include "core/model/fields.h"
#include "core/model/json.h"
#include "core/model/names.h"
#include "core/model/parse.h"
#include "core/plan/environment.h"
#include "core/plan/launcher.h"
#include "core/status/status_fields.h"
#include "core/text/text.h"
#include "core/validate/validate.h"

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

Json Validate(std::string_view text) {
  core::ParseResult parsed = core::ParseJson(text);
  if (parsed.job) {
    core::AddProblems(core::Validate(*parsed.job, core::Target::kCluster), &parsed.problems);
  }
  return Errors(parsed.problems);
}

// As core understands it, less what is at its default.
std::string SpecOf(std::string_view text) {
  const core::ParseResult parsed = core::ParseJson(text);
  return parsed.job ? core::WriteJson(*core::ToNode(*parsed.job).Find("spec")) : "null";
}

template <typename T>
struct Element {
  using Type = T;
  static constexpr const char* kSuffix = "";
};
template <typename T>
struct Element<std::optional<T>> : Element<T> {};
template <typename T>
struct Element<std::vector<T>> : Element<T> {
  static constexpr const char* kSuffix = "[]";
};
template <>
struct Element<core::MachineAttempts>
    : Element<decltype(std::declval<core::MachineAttempts>().Ranges())> {};

// "spec.failurePolicy.rules[].action" and so on: every field that a file may hold.
template <core::HasFields Struct>
void AddPaths(const std::string& path, Json& paths) {
  core::ForEachField<Struct>([&](const auto& field) {
    using Member = std::remove_cvref_t<decltype(std::declval<Struct>().*field.member)>;
    using Inner = Element<Member>;
    std::string child = path;
    if (!field.name.empty()) {  // else its fields stand beside the others
      child += "." + std::string(field.name);
      paths.push_back(child);
    }
    if constexpr (core::HasFields<typename Inner::Type>) {
      AddPaths<typename Inner::Type>(child + Inner::kSuffix, paths);
    }
  });
}

Json Fields() {
  Json paths = Json::array();
  AddPaths<core::Spec>("spec", paths);
  AddPaths<core::JobStatus>("status", paths);
  return paths;
}

Json Names() {
  Json labels = Json::array();
  for (const auto& [label, value] : core::JobLabels("")) labels.push_back(label);
  const auto reserved = core::ReservedNames();
  return {{"fields", Fields()},
          {"variables", std::vector<std::string_view>(reserved.begin(), reserved.end())},
          {"launchers", core::LauncherNames()},
          {"signals", core::SignalNameList()},
          {"labels", std::move(labels)}};
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const std::string_view desired = argc > 1 ? argv[1] : "";
  if (desired == "--names") {
    std::cout << lockstep::Names().dump() << "\n";
    return 0;
  }
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << (desired == "--specs" ? lockstep::SpecOf(line) : lockstep::Validate(line).dump())
              << "\n";
  }
  return 0;
}
