// lockstep-validator: what core says of many TrainingJobs, for tests that ask an API server, too.
//
// Reads a job in JSON a line from standard input and answers each with a line: a JSON list of
// {"path", "message"}, one for each error that `lockstep validate` would show. With --names: the
// names that core reserves or knows, which the CRD repeats. With --tables: what its tables say of
// every field, which the CRD is made of. With --specs: each job's spec as core understands it, less
// what is at its default.
#include <concepts>
#include <cstdint>
#include <iostream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/failure/causes.h"
#include "core/failure/signals.h"
#include "core/model/fields.h"
#include "core/model/framework.h"
#include "core/model/json.h"
#include "core/model/names.h"
#include "core/model/parse.h"
#include "core/plan/environment.h"
#include "core/plan/launcher.h"
#include "core/record/reader.h"
#include "core/record/writer.h"
#include "core/status/status_fields.h"
#include "core/terms/known_figures.h"
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
constexpr bool kIsOptional = false;
template <typename T>
constexpr bool kIsOptional<std::optional<T>> = true;
template <typename T>
constexpr bool kIsList = false;
template <typename T>
constexpr bool kIsList<std::vector<T>> = true;
template <typename T>
constexpr bool kIsMap = false;
template <typename Key, typename T>
constexpr bool kIsMap<std::map<Key, T>> = true;

template <typename E>
Json NamesOf() {
  Json names = Json::array();
  for (const auto& entry : core::kEnumNames<E>) names.push_back(entry.name);
  return names;
}

template <core::HasFields Struct>
Json Properties(bool with_defaults);

// What the tables say of a type, as an OpenAPI schema says it.
template <typename T>
Json Schema(bool with_defaults) {
  if constexpr (core::HasSurrogate<T>) {
    return Schema<typename core::Surrogate<T>::Type>(with_defaults);
  } else if constexpr (core::HasFields<T>) {
    return {{"type", "object"}, {"properties", Properties<T>(with_defaults)}};
  } else if constexpr (kIsOptional<T>) {
    return Schema<typename T::value_type>(with_defaults);
  } else if constexpr (kIsList<T>) {
    return {{"type", "array"}, {"items", Schema<typename T::value_type>(with_defaults)}};
  } else if constexpr (kIsMap<T>) {
    return {{"type", "object"},
            {"additionalProperties", Schema<typename T::mapped_type>(with_defaults)}};
  } else if constexpr (core::OneOf<T, core::Node, Quantity>) {
    return Json::object();
  } else if constexpr (core::NamedEnum<T>) {
    return {{"type", "string"}, {"enum", NamesOf<T>()}};
  } else if constexpr (std::same_as<T, bool>) {
    return {{"type", "boolean"}};
  } else if constexpr (std::same_as<T, double>) {
    return {{"type", "number"}, {"format", "double"}};
  } else if constexpr (std::integral<T>) {
    const bool wide = !std::in_range<int32_t>(std::numeric_limits<T>::max());
    return {{"type", "integer"}, {"format", wide ? "int64" : "int32"}};
  } else {
    return {{"type", "string"}};
  }
}

// The limits that a field's forms state.
template <typename Field>
void AddForms(const Field& field, Json& made) {
  if constexpr (Field::template kHas<core::Signals>) {
    made["items"] = {{"type", "string"}, {"enum", core::SignalNameList()}};
  }
  if constexpr (Field::template kHas<core::AtMost>) {
    const core::AtMost& limit = field.template Get<core::AtMost>();
    const std::string type = made.at("type");
    made[type == "array"    ? "maxItems"
         : type == "object" ? "maxProperties"
                            : "maxLength"] = limit.most;
    if (limit.letters > 0) made["items"]["maxLength"] = limit.letters;
  }
  if constexpr (Field::template kHas<core::Between>) {
    Json& number = made.at("type") == "array" ? made["items"] : made;
    number["minimum"] = field.template Get<core::Between>().least;
    number["maximum"] = field.template Get<core::Between>().most;
  }
}

template <core::HasFields Struct>
Json Properties(bool with_defaults) {
  Json made = Json::object();
  const Json standard =
      Json::parse(core::WriteJson(core::RecordWriter(core::Defaults::kWrite).Write(Struct())));
  core::ForEachField<Struct>([&](const auto& field) {
    using Member = std::remove_cvref_t<decltype(std::declval<Struct>().*field.member)>;
    if (field.name.empty()) {  // its fields stand beside the others
      if constexpr (core::HasFields<Member>) made.update(Properties<Member>(with_defaults));
      return;
    }
    const std::string name(field.name);
    Json schema = Schema<Member>(with_defaults);
    AddForms(field, schema);
    if constexpr (std::remove_cvref_t<decltype(field)>::template kHas<core::Formerly>) {
      made[std::string(field.template Get<core::Formerly>().name)] = schema;
    }
    const bool is_required = std::remove_cvref_t<decltype(field)>::template kHas<core::Required>;
    if (with_defaults && !kIsOptional<Member> && !is_required) {
      const Json value = standard.value(name, Json());
      const bool is_text = value.is_string() && value.get<std::string>().empty();
      if (!value.is_object() && !value.empty() && !is_text) schema["default"] = value;
    }
    made[name] = std::move(schema);
  });
  return made;
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

// The tables of core that files outside of C++ are made of.
Json Tables() {
  Json frameworks = Json::array();
  for (const core::FrameworkRow& row : core::kFrameworks) {
    frameworks.push_back({{"name", row.name}, {"elastic", row.elastic}, {"roles", row.roles}});
  }
  Json causes = Json::array();
  for (const core::CauseRow& row : core::kCauses) {
    causes.push_back({{"name", row.name},
                      {"chargedTo", core::ToString(row.charged_to)},
                      {"meaning", row.meaning},
                      {"toDo", row.to_do}});
  }
  Json figures = Json::array();
  for (const core::KnownFigure& figure : core::kKnownFigures) {
    figures.push_back({{"name", figure.name},
                       {"reported", figure.reported},
                       {"sum", figure.over_ranks == core::OverRanks::kSum},
                       {"heading", figure.heading},
                       {"meaning", figure.meaning}});
  }
  const auto reserved = core::ReservedNames();
  return {{"spec", Schema<core::Spec>(/*with_defaults=*/true)},
          {"status", Schema<core::JobStatus>(false)},
          {"clusterOnly", core::ClusterFields()},
          {"frameworks", std::move(frameworks)},
          {"reservedVariables", std::vector<std::string_view>(reserved.begin(), reserved.end())},
          {"causes", std::move(causes)},
          {"figures", std::move(figures)}};
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const std::string_view desired = argc > 1 ? argv[1] : "";
  if (desired == "--tables") {
    std::cout << lockstep::Tables().dump(1) << "\n";
    return 0;
  }
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
