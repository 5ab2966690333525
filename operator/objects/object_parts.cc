#include "operator/objects/object_parts.h"

#include <utility>

#include "core/text/text.h"

namespace lockstep::control {

Json OwnersOf(const core::TrainingJob& job) {
  return Json::array({{{"apiVersion", core::kApiVersion},
                       {"kind", core::kKind},
                       {"name", job.metadata.name},
                       {"uid", job.metadata.uid},
                       {"controller", true},
                       {"blockOwnerDeletion", true}}});
}

Json MetadataOf(const core::TrainingJob& job, const std::string& name, const Labels& labels) {
  return {{"name", name},
          {"namespace", job.metadata.name_space},
          {"labels", labels},
          {"ownerReferences", OwnersOf(job)}};
}

Json FromNode(const core::Node& node) { return ParseJson(core::WriteJson(node)); }

bool IsUnset(const Json& object, const char* key) {
  return !object.contains(key) || object[key].is_null();
}

Json& ObjectAt(Json& parent, const char* key) {
  if (IsUnset(parent, key)) parent[key] = Json::object();
  return parent[key];
}

Json& ListAt(Json& parent, const char* key) {
  if (IsUnset(parent, key)) parent[key] = Json::array();
  return parent[key];
}

void SetIfUnset(Json& object, const char* key, Json value) {
  if (IsUnset(object, key)) object[key] = std::move(value);
}

}  // namespace lockstep::control
