// Common parts of a job's objects.
#ifndef LOCKSTEP_OPERATOR_OBJECTS_OBJECT_PARTS_H_
#define LOCKSTEP_OPERATOR_OBJECTS_OBJECT_PARTS_H_

#include <map>
#include <string>
#include <string_view>

#include "base/text/json.h"
#include "core/model/spec.h"
#include "core/text/node.h"

namespace lockstep::control {

using Labels = std::map<std::string, std::string>;

// Port names of pods and Services; the API server accepts at most 15 letters. The second is the
// port of metrics, health and readiness.
inline constexpr const char* kGangPortName = "lockstep-gang";
inline constexpr const char* kHttpPortName = "lockstep-http";

// The job as the controlling owner.
Json OwnersOf(const core::TrainingJob& job);

// Name, namespace, labels, and the job as the controlling owner.
Json MetadataOf(const core::TrainingJob& job, const std::string& name, const Labels& labels);

Json FromNode(const core::Node& node);

// Absent or null, which the API server takes for the same.
bool IsUnset(const Json& object, const char* key);
// The object or list at `key`; made if it is unset.
Json& ObjectAt(Json& parent, const char* key);
Json& ListAt(Json& parent, const char* key);
void SetIfUnset(Json& object, const char* key, Json value);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_OBJECTS_OBJECT_PARTS_H_
