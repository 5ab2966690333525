#include "worker/agent/logs/text_tail.h"

#include <algorithm>

namespace lockstep::agent {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// The length of the well-formed UTF-8 character at the start of `text`; 0: there is none.
// Table 3-7 of the Unicode standard.
size_t CharacterLength(std::string_view text) {
  const auto byte = [&](size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const auto continues = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned first = byte(0);
  const unsigned second = byte(1);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (first == 0xE0 && second < 0xA0) return 0;
    if (first == 0xED && second > 0x9F) return 0;
    return continues(1) && continues(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (first == 0xF0 && second < 0x90) return 0;
    if (first == 0xF4 && second > 0x8F) return 0;
    return continues(1) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t' && c != '\n') || byte == 0x7f;
}

}  // namespace

std::string SanitizeUtf8(std::string_view text, size_t max_size) {
  std::string clean;
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    std::string_view character = length > 0 ? text.substr(0, length) : kReplacement;
    if (length == 1 && IsControl(text.front())) character = " ";
    if (clean.size() + character.size() > max_size) break;
    clean.append(character);
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return clean;
}

void TextTail::Feed(std::string_view bytes) {
  if (bytes.size() >= kKept) {
    tail_.assign(bytes.substr(bytes.size() - kKept));
    return;
  }
  const size_t whole = tail_.size() + bytes.size();
  if (whole > kKept) tail_.erase(0, whole - kKept);
  tail_.append(bytes);
}

std::string TextTail::Lines(size_t max_size) const {
  std::string_view text = tail_;
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  // Cleaning can only make it longer (U+FFFD has three bytes), so it comes first.
  std::string clean = SanitizeUtf8(text, text.size() * kReplacement.size());
  if (clean.size() <= max_size) return clean;
  size_t start = clean.size() - max_size;
  const size_t line = clean.find('\n', start - 1);
  if (line != std::string::npos) return clean.substr(line + 1);
  while (start < clean.size() && (static_cast<unsigned char>(clean[start]) & 0xC0) == 0x80) ++start;
  return clean.substr(start);
}

}  // namespace lockstep::agent
