#include "operator/objects/metadata.h"

#include <algorithm>

#include "base/text/json.h"
#include "core/model/spec.h"
#include "operator/kube/decode/decode.h"
#include "operator/objects/object_parts.h"

namespace lockstep::control {

// A ServiceView's decoder reads the metadata that all objects share, and little else.
Metadata ReadMetadata(const std::string& json) {
  kube::Decoder decoder;
  Result<kube::ServiceView> object = decoder.Object<kube::ServiceView>(json);
  if (!object.ok()) return {};
  return {object->meta.resource_version, object->meta.owner_uid, object->meta.deleted.has_value(),
          object->meta.uid};
}

bool IsOfTrainingJob(const std::string& json, const std::string& job) {
  const Json object = ParseJson(json);
  const Json::json_pointer place("/metadata/ownerReferences");
  if (object.is_discarded() || !object.contains(place)) return false;
  const Json& owners = object.at(place);
  return std::any_of(owners.begin(), owners.end(), [&](const Json& owner) {
    return owner.is_object() && owner.value("controller", Json()) == true &&
           owner.value("apiVersion", Json()) == core::kApiVersion &&
           owner.value("kind", Json()) == core::kKind && owner.value("name", Json()) == job;
  });
}

}  // namespace lockstep::control
