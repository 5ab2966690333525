#include "operator/kube/resource_version.h"

#include <algorithm>

namespace lockstep::kube {

bool IsResourceVersion(std::string_view version) {
  constexpr size_t kMaxDigits = 39;
  if (version.empty() || version.size() > kMaxDigits || version[0] == '0') return false;
  return std::ranges::all_of(version, [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<std::strong_ordering> CompareResourceVersions(std::string_view a,
                                                            std::string_view b) {
  if (!IsResourceVersion(a) || !IsResourceVersion(b)) return std::nullopt;
  if (a.size() != b.size()) return a.size() <=> b.size();
  return a <=> b;
}

bool Covers(std::string_view seen, std::string_view written) {
  auto order = CompareResourceVersions(seen, written);
  return order && *order >= 0;
}

}  // namespace lockstep::kube
