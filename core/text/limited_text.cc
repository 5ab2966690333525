#include "core/text/limited_text.h"

#include <algorithm>

#include "core/text/text.h"

namespace lockstep::core {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kCut = "...";

// Also U+0080 to U+009F, which terminals treat as ESC and a letter.
bool IsControl(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() > 1) {
    return first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
  }
  return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f;
}

bool ContinuesCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

}  // namespace

std::string Printable(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    const bool bad = length == 0 || IsControl(text.substr(0, length));
    clean += bad ? kReplacement : text.substr(0, length);
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return clean;
}

std::string OneLine(std::string_view text) {
  std::string line = Printable(text);
  std::ranges::replace_if(line, [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return line;
}

std::string FirstBytes(std::string_view text, size_t limit) {
  const bool whole = text.size() <= limit;
  std::string clean = Printable(text.substr(0, limit + 1));
  if (whole && clean.size() <= limit) return clean;
  size_t end = limit - kCut.size();
  while (end > 0 && ContinuesCharacter(clean[end])) --end;
  clean.resize(end);
  return clean += kCut;
}

std::string LastBytes(std::string_view text, size_t limit) {
  size_t start = text.size() > limit ? text.size() - limit : 0;
  while (start > 0 && start < text.size() && ContinuesCharacter(text[start])) ++start;
  std::string clean = Printable(text.substr(start));
  if (clean.size() <= limit) return clean;
  start = clean.size() - limit;
  while (start < clean.size() && ContinuesCharacter(clean[start])) ++start;
  return clean.substr(start);
}

}  // namespace lockstep::core
