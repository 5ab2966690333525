// The forms of names that Kubernetes takes. Pure; a name may be of any bytes.
#ifndef LOCKSTEP_CORE_MODEL_NAME_FORMS_H_
#define LOCKSTEP_CORE_MODEL_NAME_FORMS_H_

#include <cstddef>
#include <string_view>

namespace lockstep::core {

inline constexpr size_t kLongestLabel = 63;

// RFC 1123: lower-case letters, digits and dashes, with a letter or digit at both ends.
bool IsDnsLabel(std::string_view name, size_t longest = kLongestLabel);
// Labels with dots between them.
bool IsDnsSubdomain(std::string_view name);
// A label key or a resource: a name, or DOMAIN/name.
bool IsQualifiedName(std::string_view name);
// A Python package's, as in torch.
bool IsIdentifier(std::string_view name);
// The name of an environment variable that every version of Kubernetes accepts.
bool IsVariableName(std::string_view name);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_MODEL_NAME_FORMS_H_
