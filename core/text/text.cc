#include "core/text/text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "base/text/ascii.h"

namespace lockstep::core {
namespace {

size_t SkipDigits(std::string_view text, size_t from) {
  while (from < text.size() && (IsDigit(text[from]) || text[from] == '_')) ++from;
  return from;
}

// Decimal, 0x1F, 0o17, 0b1: with the underscores of YAML 1.1.
bool LooksLikeInteger(std::string_view text) {
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'o' || text[1] == 'b')) {
    return std::all_of(text.begin() + 2, text.end(),
                       [](unsigned char c) { return std::isxdigit(c) != 0 || c == '_'; });
  }
  return !text.empty() && IsDigit(text[0]) && SkipDigits(text, 0) == text.size();
}

bool LooksLikeFloat(std::string_view text) {
  size_t at = SkipDigits(text, 0);
  bool digits = at > 0;
  if (at < text.size() && text[at] == '.') {
    const size_t end = SkipDigits(text, at + 1);
    digits = digits || end > at + 1;
    at = end;
  }
  if (!digits) return false;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    const size_t end = SkipDigits(text, at);
    if (end == at) return false;
    at = end;
  }
  return at == text.size();
}

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

}  // namespace

size_t CharacterLength(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto follows = [&](size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first < 0xF0) {
    const bool overlong = first == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = first == 0xED && byte(1) >= 0xA0;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first < 0xF5) {
    const bool overlong = first == 0xF0 && byte(1) < 0x90;
    const bool beyond = first == 0xF4 && byte(1) >= 0x90;
    return follows(1) && follows(2) && follows(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

std::optional<Problem> CheckText(std::string_view text) {
  if (text.size() > kMaxDocumentBytes) {
    return Problem{.message = "the file is larger than 1 MiB, too large for a TrainingJob"};
  }
  Position position{1, 1};
  for (size_t i = 0; i < text.size();) {
    const size_t length = CharacterLength(text.substr(i));
    if (length == 0) {
      return Problem{.line = position.line,
                     .column = position.column,
                     .message = "this is not UTF-8; save the file as UTF-8"};
    }
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7f) {
      return Problem{.line = position.line,
                     .column = position.column,
                     .message =
                         "control characters are not allowed here; write them as escapes in "
                         "double quotes"};
    }
    i += length;
    ++position.column;
    if (c == '\n') position = {position.line + 1, 1};
  }
  return std::nullopt;
}

Node::Kind PlainScalarKind(std::string_view text) {
  if (IsOneOf(text, {"", "~", "null", "Null", "NULL"})) return Node::Kind::kNull;
  if (IsOneOf(text, {"true", "True", "TRUE", "false", "False", "FALSE"})) return Node::Kind::kBool;
  const bool is_signed = text[0] == '+' || text[0] == '-';
  const std::string_view number = text.substr(is_signed ? 1 : 0);
  if (LooksLikeInteger(number)) return Node::Kind::kInteger;
  if (LooksLikeFloat(number)) return Node::Kind::kFloat;
  if (IsOneOf(number, {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"})) return Node::Kind::kFloat;
  return Node::Kind::kString;
}

std::optional<int64_t> Yaml11Integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  std::string digits(text);
  std::erase(digits, '_');
  constexpr std::pair<std::string_view, int> kBases[] = {
      {"0x", 16}, {"0o", 8}, {"0b", 2}, {"0", 8}, {"", 10}};
  for (const auto& [prefix, base] : kBases) {
    if (!digits.starts_with(prefix)) continue;
    const std::string number = (negative ? "-" : "") + digits.substr(prefix.size());
    int64_t value = 0;
    const char* const end = number.data() + number.size();
    const auto [at, error] = std::from_chars(number.data(), end, value, base);
    if (error == std::errc() && at == end) return value;
  }
  return std::nullopt;
}

bool Yaml11Truth(std::string_view text) {
  return IsOneOf(text, {"true", "yes", "Yes", "YES", "on", "On", "ON"});
}

size_t CountLetters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(),
                                           [](unsigned char c) { return (c & 0xC0U) != 0x80U; }));
}

bool IsJsonNumber(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.find_first_not_of("0123456789.eE+-") != std::string_view::npos) return false;
  if (!LooksLikeFloat(text) || !IsDigit(text[0])) return false;
  if (text[0] == '0' && text.size() > 1 && IsDigit(text[1])) return false;
  const size_t point = text.find('.');
  return point == std::string_view::npos || (point + 1 < text.size() && IsDigit(text[point + 1]));
}

bool IsYaml11Bool(std::string_view text) {
  return IsOneOf(text,
                 {"yes", "Yes", "YES", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF"});
}

}  // namespace lockstep::core
