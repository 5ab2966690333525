#include "core/terms/generation.h"

#include <algorithm>

#include "base/text/ascii.h"

namespace lockstep::core {

std::string Generation::ToString() const {
  return std::to_string(attempt) + "-" + std::to_string(n);
}

Result<Generation> Generation::Parse(std::string_view text) {
  if (text.empty()) return Generation{};
  const size_t dash = std::min(text.find('-'), text.size());
  const auto attempt = ParseNumber<uint32_t>(text.substr(0, dash));
  const auto n = ParseNumber<uint32_t>(text.substr(std::min(dash + 1, text.size())));
  if (!attempt || !n) return Error::Invalid("must be a generation, as in 2-5");
  return Generation{*attempt, *n};
}

}  // namespace lockstep::core
