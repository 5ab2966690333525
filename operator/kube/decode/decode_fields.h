// Reading single fields with simdjson On-Demand, for the decode*.cc files alone. All return an
// error only where the text is broken; a value of another type leaves what is to be set as it was.
#ifndef LOCKSTEP_OPERATOR_KUBE_DECODE_DECODE_FIELDS_H_
#define LOCKSTEP_OPERATOR_KUBE_DECODE_DECODE_FIELDS_H_

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/text/ascii.h"
#include "base/wall_time.h"
#include "operator/kube/views.h"

namespace lockstep::kube::decode {

namespace ondemand = simdjson::ondemand;
using simdjson::error_code;

// Whether the error says only that the value has another type than asked for.
inline bool OtherType(error_code error) {
  return error == simdjson::INCORRECT_TYPE || error == simdjson::NUMBER_ERROR ||
         error == simdjson::NUMBER_OUT_OF_RANGE;
}

inline bool Is(ondemand::raw_json_string key, std::string_view name) {
  return key.unsafe_is_equal(name);
}

// visit(raw_json_string key, ondemand::value found) -> error_code, for each field.
template <typename Visit>
error_code ForEachField(ondemand::object object, Visit&& visit) {
  for (auto result : object) {
    ondemand::field field;
    if (auto error = std::move(result).get(field)) return error;
    if (auto error = visit(field.key(), field.value())) return error;
  }
  return simdjson::SUCCESS;
}

template <typename Visit>
error_code ReadObject(ondemand::value value, Visit&& visit) {
  ondemand::object object;
  if (auto error = value.get_object().get(object)) {
    return OtherType(error) ? simdjson::SUCCESS : error;
  }
  return ForEachField(object, visit);
}

// visit(ondemand::value element) -> error_code.
template <typename Visit>
error_code ReadArray(ondemand::value value, Visit&& visit) {
  ondemand::array array;
  if (auto error = value.get_array().get(array)) {
    return OtherType(error) ? simdjson::SUCCESS : error;
  }
  for (auto result : array) {
    ondemand::value element;
    if (auto error = std::move(result).get(element)) return error;
    if (auto error = visit(element)) return error;
  }
  return simdjson::SUCCESS;
}

// Good until the parser's next text.
error_code ReadText(ondemand::value value, std::string_view& out);
// At most kMaxText bytes of it. Nothing that is decided by is longer: what is cut is no name.
inline constexpr size_t kMaxText = size_t{8} << 10;
std::string Kept(std::string_view text);
error_code Read(ondemand::value value, std::string& out);
error_code Read(ondemand::value value, bool& out);
error_code Read(ondemand::value value, int64_t& out);
error_code Read(ondemand::value value, int32_t& out);
error_code Read(ondemand::value value, std::optional<WallTime>& out);

// What is read of metadata besides ObjectMeta.
struct Extras {
  std::string_view job;  // labels of ours
  std::string_view machine;
  std::string_view attempt;
  std::string_view spare;
  bool initial_events_end = false;  // an annotation of bookmarks
  std::string_view suspect;         // annotation lockstep.dev/suspect of a node
  std::string_view managed_fields;  // where `"managedFields": [...]` stands in the text
};

error_code ReadMeta(ondemand::value value, ObjectMeta& meta, Extras& extras);

// One condition of a status: type, status, reason, message.
struct Condition {
  std::string_view type;
  bool is_true = false;
  bool is_false = false;
  std::string_view reason;
  std::string_view message;
};

error_code ReadCondition(ondemand::value value, Condition& condition);

// `json` is the object's own text.
error_code ReadView(ondemand::object object, std::string_view json, PodView& pod);
error_code ReadView(ondemand::object object, std::string_view json, JobView& job);
error_code ReadView(ondemand::object object, std::string_view json, ServiceView& service);
error_code ReadView(ondemand::object object, std::string_view json, SliceView& slice);
error_code ReadView(ondemand::object object, std::string_view json, NodeView& node);
error_code ReadView(ondemand::object object, std::string_view json, WorkloadView& workload);
error_code ReadView(ondemand::object object, std::string_view json, FlavorView& flavor);
error_code ReadView(ondemand::object object, std::string_view json, ClaimView& claim);

}  // namespace lockstep::kube::decode

#endif  // LOCKSTEP_OPERATOR_KUBE_DECODE_DECODE_FIELDS_H_
