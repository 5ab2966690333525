#include "operator/control/metadata.h"

#include "operator/kube/decode.h"

namespace lockstep::control {

// A ServiceView's decoder reads the metadata that all objects share, and little else.
Metadata ReadMetadata(const std::string& json) {
  kube::Decoder decoder;
  Result<kube::ServiceView> object = decoder.Object<kube::ServiceView>(json);
  if (!object.ok()) return {};
  return {object->meta.resource_version, object->meta.owner_uid, object->meta.deleted.has_value()};
}

}  // namespace lockstep::control
