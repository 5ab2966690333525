#include "core/model/name_forms.h"

#include <algorithm>

#include "base/text/ascii.h"

namespace lockstep::core {
namespace {

constexpr size_t kLongestSubdomain = 253;

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsLetterOrDigit(char c) { return IsLower(c) || IsDigit(c) || (c >= 'A' && c <= 'Z'); }

}  // namespace

bool IsDnsLabel(std::string_view name, size_t longest) {
  const auto at_ends = [](char c) { return IsLower(c) || IsDigit(c); };
  if (name.empty() || name.size() > longest) return false;
  if (!at_ends(name.front()) || !at_ends(name.back())) return false;
  return std::all_of(name.begin(), name.end(), [&](char c) { return at_ends(c) || c == '-'; });
}

bool IsDnsSubdomain(std::string_view name) {
  if (name.size() > kLongestSubdomain) return false;
  while (true) {
    const size_t dot = name.find('.');
    if (!IsDnsLabel(name.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    name.remove_prefix(dot + 1);
  }
}

bool IsQualifiedName(std::string_view name) {
  if (const size_t slash = name.find('/'); slash != std::string_view::npos) {
    if (!IsDnsSubdomain(name.substr(0, slash))) return false;
    name.remove_prefix(slash + 1);
  }
  if (name.empty() || name.size() > kLongestLabel) return false;
  if (!IsLetterOrDigit(name.front()) || !IsLetterOrDigit(name.back())) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return IsLetterOrDigit(c) || c == '-' || c == '_' || c == '.'; });
}

bool IsVariableName(std::string_view name) {
  if (name.empty() || IsDigit(name.front())) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return IsLetterOrDigit(c) || c == '-' || c == '_' || c == '.'; });
}

bool IsIdentifier(std::string_view name) {
  if (name.empty() || IsDigit(name.front())) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return IsLetterOrDigit(c) || c == '_'; });
}

}  // namespace lockstep::core
