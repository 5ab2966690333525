// Resource versions are numbers of any length in decimal, and may be compared within one resource
// (KEP-5504). A server that hands out anything else is still served: nothing is then known of
// order.
#ifndef LOCKSTEP_OPERATOR_KUBE_RESOURCE_VERSION_H_
#define LOCKSTEP_OPERATOR_KUBE_RESOURCE_VERSION_H_

#include <compare>
#include <optional>
#include <string_view>

namespace lockstep::kube {

// Digits without a leading zero, at most 39 of them (128 bits).
bool IsResourceVersion(std::string_view version);

// Nothing when either is not well formed.
std::optional<std::strong_ordering> CompareResourceVersions(std::string_view a, std::string_view b);

// Whether a state at `seen` includes the write at `written`; false if unknown.
bool Covers(std::string_view seen, std::string_view written);

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_RESOURCE_VERSION_H_
