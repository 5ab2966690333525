// From a document's tree to a typed job. Every wrong type, unknown name and value out of range
// becomes a problem with its place.
#ifndef LOCKSTEP_CORE_MODEL_READ_H_
#define LOCKSTEP_CORE_MODEL_READ_H_

#include <cstdint>

#include "core/model/parse.h"
#include "core/text/node.h"

namespace lockstep::core {

enum class Origin : uint8_t {
  kUser,       // wrote it: an unknown field is a mistake
  kApiServer,  // has let it in, and may know metadata of a newer Kubernetes
};

ParseResult ReadJob(const Node& document, Origin origin = Origin::kUser);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_MODEL_READ_H_
