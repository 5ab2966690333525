#include "core/failure/generation.h"

#include <algorithm>
#include <charconv>

namespace lockstep::core {
namespace {

bool ParseNumber(std::string_view text, uint32_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string Generation::ToString() const {
  return std::to_string(attempt) + "-" + std::to_string(n);
}

Result<Generation> Generation::Parse(std::string_view text) {
  Generation generation;
  if (text.empty()) return generation;
  const size_t dash = std::min(text.find('-'), text.size());
  const std::string_view n = dash < text.size() ? text.substr(dash + 1) : "";
  if (!ParseNumber(text.substr(0, dash), generation.attempt) || !ParseNumber(n, generation.n)) {
    return Error::Invalid("must be a generation, as in 2-5");
  }
  return generation;
}

}  // namespace lockstep::core
