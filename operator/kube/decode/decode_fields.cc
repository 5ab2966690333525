#include "operator/kube/decode/decode_fields.h"

#include <limits>

#include "core/text/limited_text.h"

namespace lockstep::kube::decode {
namespace {

using simdjson::SUCCESS;

error_code ReadLabels(ondemand::value value, Extras& extras) {
  return ReadObject(value, [&](ondemand::raw_json_string key, ondemand::value label) {
    if (Is(key, "lockstep.dev/job")) return ReadText(label, extras.job);
    if (Is(key, "lockstep.dev/machine")) return ReadText(label, extras.machine);
    if (Is(key, "lockstep.dev/attempt")) return ReadText(label, extras.attempt);
    if (Is(key, "lockstep.dev/spare")) return ReadText(label, extras.spare);
    return SUCCESS;
  });
}

error_code ReadAnnotations(ondemand::value value, Extras& extras) {
  return ReadObject(value, [&](ondemand::raw_json_string key, ondemand::value annotation) {
    if (Is(key, "lockstep.dev/suspect")) return ReadText(annotation, extras.suspect);
    if (!Is(key, "k8s.io/initial-events-end")) return SUCCESS;
    std::string_view text;
    const error_code error = ReadText(annotation, text);
    extras.initial_events_end = text == "true";
    return error;
  });
}

error_code ReadOwners(ondemand::value value, std::string& owner_uid) {
  return ReadArray(value, [&](ondemand::value owner) {
    std::string_view uid;
    bool controller = false;
    const error_code error =
        ReadObject(owner, [&](ondemand::raw_json_string key, ondemand::value field) {
          if (Is(key, "uid")) return ReadText(field, uid);
          if (Is(key, "controller")) return Read(field, controller);
          return SUCCESS;
        });
    if (controller && uid.size() <= kMaxText) owner_uid = uid;
    return error;
  });
}

error_code ReadManagedFields(ondemand::raw_json_string key, ondemand::value value,
                             std::string_view& out) {
  ondemand::array array;
  if (auto error = value.get_array().get(array)) return OtherType(error) ? SUCCESS : error;
  std::string_view json;
  if (auto error = array.raw_json().get(json)) return error;
  const size_t last = json.rfind(']');
  if (last == std::string_view::npos) return simdjson::TAPE_ERROR;
  const char* begin = key.raw() - 1;  // its opening quote
  const char* end = json.data() + last + 1;
  out = {begin, static_cast<size_t>(end - begin)};
  return SUCCESS;
}

}  // namespace

error_code ReadText(ondemand::value value, std::string_view& out) {
  std::string_view text;
  const error_code error = value.get_string().get(text);
  if (error == SUCCESS) out = text;
  return OtherType(error) ? SUCCESS : error;
}

std::string Kept(std::string_view text) {
  return text.size() > kMaxText ? core::FirstBytes(text, kMaxText) : std::string(text);
}

error_code Read(ondemand::value value, std::string& out) {
  std::string_view text = out;
  const error_code error = ReadText(value, text);
  if (text.data() != out.data()) out = Kept(text);
  return error;
}

error_code Read(ondemand::value value, bool& out) {
  bool flag = out;
  const error_code error = value.get_bool().get(flag);
  if (error == SUCCESS) out = flag;
  return OtherType(error) ? SUCCESS : error;
}

error_code Read(ondemand::value value, int64_t& out) {
  int64_t number = out;
  const error_code error = value.get_int64().get(number);
  if (error == SUCCESS) out = number;
  return OtherType(error) ? SUCCESS : error;
}

error_code Read(ondemand::value value, int32_t& out) {
  int64_t number = out;
  const error_code error = Read(value, number);
  using Limits = std::numeric_limits<int32_t>;
  if (number >= Limits::min() && number <= Limits::max()) out = static_cast<int32_t>(number);
  return error;
}

error_code Read(ondemand::value value, std::optional<WallTime>& out) {
  std::string_view text;
  const error_code error = ReadText(value, text);
  if (!text.empty()) {
    if (auto time = ParseWallTime(text); time.ok()) out = *time;
  }
  return error;
}

error_code ReadMeta(ondemand::value value, ObjectMeta& meta, Extras& extras) {
  return ReadObject(value, [&](ondemand::raw_json_string key, ondemand::value field) {
    if (Is(key, "name")) return Read(field, meta.name);
    if (Is(key, "namespace")) return Read(field, meta.name_space);
    if (Is(key, "uid")) return Read(field, meta.uid);
    if (Is(key, "resourceVersion")) return Read(field, meta.resource_version);
    if (Is(key, "generation")) return Read(field, meta.generation);
    if (Is(key, "deletionTimestamp")) return Read(field, meta.deleted);
    if (Is(key, "creationTimestamp")) {
      std::optional<WallTime> created;
      const error_code error = Read(field, created);
      if (created) meta.created = *created;
      return error;
    }
    if (Is(key, "labels")) return ReadLabels(field, extras);
    if (Is(key, "annotations")) return ReadAnnotations(field, extras);
    if (Is(key, "ownerReferences")) return ReadOwners(field, meta.owner_uid);
    if (Is(key, "managedFields")) return ReadManagedFields(key, field, extras.managed_fields);
    return SUCCESS;
  });
}

error_code ReadCondition(ondemand::value value, Condition& condition) {
  return ReadObject(value, [&](ondemand::raw_json_string key, ondemand::value field) {
    if (Is(key, "type")) return ReadText(field, condition.type);
    if (Is(key, "reason")) return ReadText(field, condition.reason);
    if (Is(key, "message")) return ReadText(field, condition.message);
    if (!Is(key, "status")) return SUCCESS;
    std::string_view status;
    const error_code error = ReadText(field, status);
    condition.is_true = status == "True";
    condition.is_false = status == "False";
    return error;
  });
}

}  // namespace lockstep::kube::decode
