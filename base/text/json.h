// JSON as a tree, for what has no table of fields (core/record reads and writes what has one).
#ifndef LOCKSTEP_BASE_TEXT_JSON_H_
#define LOCKSTEP_BASE_TEXT_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace lockstep {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // keeps its members in the order of their writing

// The tree that `text` says; discarded (Json::is_discarded) where it is not JSON. Never throws.
Json ParseJson(std::string_view text);
OrderedJson ParseOrderedJson(std::string_view text);

// One line, or lines indented by `indent` spaces. What is not UTF-8 is replaced; all control
// characters are written as escapes, those that JSON allows too. Never throws.
std::string DumpJson(const Json& json, int indent = -1);
std::string DumpJson(const OrderedJson& json, int indent = -1);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_TEXT_JSON_H_
