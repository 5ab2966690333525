#include "core/record/reader.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/text/ascii.h"
#include "base/text/duration.h"
#include "core/failure/signals.h"
#include "core/text/text.h"

namespace lockstep::core {
namespace {

constexpr size_t kMaxProblems = 100;
constexpr size_t kMostLettersOfAmount = 64;  // of a duration or quantity
constexpr double kMostSeconds = 4e9;         // over a century; fits a Duration

std::string Join(const std::vector<std::string_view>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

bool PlainDecimal(std::string_view text) {
  const size_t start = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  if (text.size() == start || (text[start] == '0' && text.size() > start + 1)) return false;
  return std::all_of(text.begin() + static_cast<std::ptrdiff_t>(start), text.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

// The way kubectl reads it.
std::string NumberText(const Node& node) {
  if (node.kind() == Node::Kind::kInteger && !IsJsonNumber(node.text())) {
    if (const std::optional<int64_t> value = Yaml11Integer(node.text())) {
      return std::to_string(*value);
    }
  }
  return node.text();
}

// 4.0 and 1e1 are whole numbers in JSON, up to where a double can tell them apart.
std::optional<int64_t> WholeFloat(const Node& node) {
  constexpr double kMostWhole = 9007199254740991;
  double parsed = 0;
  if (node.kind() != Node::Kind::kFloat || !IsJsonNumber(node.text())) return std::nullopt;
  const char* end = node.text().data() + node.text().size();
  const auto [at, error] = std::from_chars(node.text().data(), end, parsed);
  if (error != std::errc() || at != end || parsed != std::trunc(parsed)) return std::nullopt;
  if (std::abs(parsed) > kMostWhole) return std::nullopt;
  return static_cast<int64_t>(parsed);
}

// The items of a value that was written in place of a list.
std::string AsItems(const Node& node, std::string_view path) {
  constexpr std::string_view kUnclear = "...";
  if (node.IsMap() && !node.members().empty() && path.ends_with(".env")) {
    const NodeMember& first = node.members().front();
    const std::string value = first.value.IsScalar() ? first.value.text() : std::string(kUnclear);
    return "{name: " + first.key + ", value: \"" + value + "\"}, " + std::string(kUnclear);
  }
  if (!node.IsScalar() || node.text().empty()) return std::string(kUnclear);
  if (node.text().find_first_of("\"'\\\n") != std::string::npos) return std::string(kUnclear);
  std::istringstream words(node.text());
  std::string items;
  for (std::string word; words >> word;) items += (items.empty() ? "" : ", ") + word;
  return items;
}

}  // namespace

ReaderState::Scope::Scope(ReaderState& reader, std::string_view key)
    : reader_(reader), size_(reader.path_.size()) {
  if (!reader_.path_.empty()) reader_.path_ += '.';
  reader_.path_ += key;
}

ReaderState::Scope::Scope(ReaderState& reader, size_t index)
    : reader_(reader), size_(reader.path_.size()) {
  reader_.path_ += "[" + std::to_string(index) + "]";
}

void ReaderState::Wrong(const Node& node, std::string message, bool show_found) {
  Add(node.position(), show_found ? node.Describe() : "", std::move(message));
}

void ReaderState::Place(const Node& node) {
  if (!of_program()) source_.Set(path_, node.position());
}

Error ReaderState::FirstError() const {
  const Problem& first = problems_.front();
  std::string message = first.path.empty() ? "" : first.path + ": ";
  message += first.message;
  if (!first.found.empty()) message += " (found " + first.found + ")";
  return too_large_ ? Error::TooLarge(std::move(message)) : Error::Invalid(std::move(message));
}

std::string ReaderState::DidYouMean(std::string_view name,
                                    const std::vector<std::string_view>& known) {
  const std::string_view nearest = NearestName(name, known);
  return nearest.empty() ? "" : "; did you mean \"" + std::string(nearest) + "\"?";
}

void ReaderState::ReadScalar(const Node& node, bool& value) {
  if (node.kind() != Node::Kind::kBool) return Wrong(node, "must be true or false");
  value = Yaml11Truth(node.text());
}

void ReaderState::ReadScalar(const Node& node, double& value) {
  double parsed = 0;
  const std::string text = NumberText(node);
  const char* end = text.data() + text.size();
  const char* begin = text.starts_with('+') ? text.data() + 1 : text.data();
  const bool number = node.kind() == Node::Kind::kInteger || node.kind() == Node::Kind::kFloat;
  const auto [at, error] = std::from_chars(begin, end, parsed);
  if (!number || error != std::errc() || at != end || !std::isfinite(parsed)) {
    return Wrong(node, "must be a finite number, as in 0.1 or 0.0003");
  }
  value = parsed;
}

void ReaderState::ReadScalar(const Node& node, std::string& value) {
  if (!node.IsString()) {
    const bool quotable = !of_program() && node.IsScalar() && !node.IsNull();
    return Wrong(node, quotable ? "must be text; put it in quotes: \"" + node.text() + "\""
                                : "must be text");
  }
  CheckNoZero(node);
  value = node.text();
}

void ReaderState::ReadScalar(const Node& node, Duration& value) {
  if (node.kind() == Node::Kind::kInteger || node.kind() == Node::Kind::kFloat) {
    return Wrong(node, "must be a duration with its unit; for seconds write " + node.text() + "s");
  }
  if (!node.IsString()) return Wrong(node, "must be a duration, as in 30s, 1h30m or 500ms");
  CheckLetters(node, kMostLettersOfAmount);
  const Result<Duration> parsed = ParseDuration(node.text());
  if (!parsed.ok()) return Wrong(node, parsed.error().message, false);
  value = *parsed;
}

void ReaderState::ReadScalar(const Node& node, WallTime& value) {
  const std::string* text = Text(node);
  if (text == nullptr) return;
  const Result<WallTime> parsed = ParseWallTime(*text);
  if (!parsed.ok()) return Wrong(node, parsed.error().message, false);
  value = *parsed;
}

void ReaderState::ReadScalar(const Node& node, Quantity& value) {
  const std::optional<int64_t> whole = WholeFloat(node);
  if (node.kind() == Node::Kind::kFloat && !whole) {
    return Wrong(node, "must be text or a whole number; put it in quotes: \"" + node.text() + "\"");
  }
  if (!node.IsString() && node.kind() != Node::Kind::kInteger && !whole) {
    return Wrong(node, "must be a quantity, as in 500m, 4 or 16Gi");
  }
  CheckLetters(node, kMostLettersOfAmount);
  const Result<Quantity> parsed =
      Quantity::Parse(whole ? std::to_string(*whole) : NumberText(node));
  if (!parsed.ok()) return Wrong(node, parsed.error().message, false);
  value = *parsed;
}

std::optional<std::string_view> ReaderState::WholeNumber(const Node& node, std::string& buffer) {
  if (const std::optional<int64_t> whole = WholeFloat(node)) {
    buffer = std::to_string(*whole);
    return buffer;
  }
  if (node.kind() != Node::Kind::kInteger) {
    const bool quoted = node.IsString() && PlainDecimal(node.text());
    Wrong(node,
          quoted ? "must be a whole number; write it without quotes" : "must be a whole number");
    return std::nullopt;
  }
  buffer = NumberText(node);
  if (!PlainDecimal(buffer)) {
    Wrong(node, "must be a whole number in plain decimal digits, as in 16");
    return std::nullopt;
  }
  std::string_view digits = buffer;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  return digits;
}

void ReaderState::OutOfRange(const Node& node, const std::string& least, const std::string& most) {
  Wrong(node, "must lie between " + least + " and " + most);
}

void ReaderState::ReadSeconds(const Node& node, Duration& value) {
  double count = 0;
  ReadScalar(node, count);
  if (!(std::abs(count) < kMostSeconds)) return Wrong(node, "is out of range", false);
  value = duration_cast<Duration>(std::chrono::duration<double>(count));
}

void ReaderState::ReadSignal(const Node& node, int& signal) {
  std::optional<int> parsed = node.IsString() ? ParseSignal(node.text()) : std::nullopt;
  if (!parsed && of_program() && node.kind() == Node::Kind::kInteger) {
    parsed = ParseNumber<int>(node.text());
    if (parsed && (*parsed <= 0 || *parsed > 64)) parsed.reset();
  }
  if (!parsed) {
    return Wrong(node, "must be the name of a signal, as in SIGBUS" +
                           DidYouMean(node.text(), SignalNameList()));
  }
  signal = *parsed;
}

void ReaderState::ReadName(const Node& node, const std::vector<std::string_view>& names) {
  Wrong(node, "must be " + Join(names) + DidYouMean(node.text(), names));
}

const std::string* ReaderState::Text(const Node& node) {
  if (node.IsString()) return &node.text();
  Wrong(node, "must be text");
  return nullptr;
}

bool ReaderState::IsMapOf(const Node& node, const std::vector<std::string_view>& known, bool open) {
  if (!node.IsMap()) {
    Wrong(node, of_program() ? "must be an object"
                : known.empty()
                    ? std::string("must be an empty mapping, {}")
                    : "must be a mapping of fields, as in {" + std::string(known[0]) + ": ...}");
    return false;
  }
  if (of_program() || open) return true;
  for (const NodeMember& member : node.members()) {
    if (std::find(known.begin(), known.end(), member.key) != known.end()) continue;
    const Scope scope(*this, member.key);
    const std::string instead = InPlaceOf(member.key);
    Add(member.position, "",
        "unknown field" + (instead.empty() ? DidYouMean(member.key, known) : instead));
  }
  return true;
}

bool ReaderState::IsListOf(const Node& node, size_t most) {
  if (!node.IsList()) {
    Wrong(node,
          of_program() ? "must be a list" : "must be a list; write [" + AsItems(node, path_) + "]");
    return false;
  }
  if (!of_program() || node.items().size() <= most) return true;
  too_large_ = problems_.empty();
  CheckItems(node, most);
  return false;
}

void ReaderState::Missing(const Node& node) { Wrong(node, "is missing", false); }

void ReaderState::NoValue(const Node& node) {
  Add(node.position(), "", "has no value and counts as absent; remove the line, or write a value",
      Severity::kWarning);
}

// A value that is handed through unread must mean the same to every reader, in YAML or JSON.
void ReaderState::CheckOpaque(const Node& node) {
  CheckNoZero(node);
  const bool is_number = node.kind() == Node::Kind::kInteger || node.kind() == Node::Kind::kFloat;
  if (is_number && !IsJsonNumber(NumberText(node))) {
    Wrong(node, "must be a number in plain decimal digits, as in 420 or 0.5");
  }
  for (const Node& item : node.items()) CheckOpaque(item);
  for (const NodeMember& member : node.members()) CheckOpaque(member.value);
}

void ReaderState::CheckLetters(const Node& node, size_t most) {
  if (!node.IsString() || CountLetters(node.text()) <= most) return;
  Wrong(node, "must be at most " + std::to_string(most) + " characters long", false);
}

void ReaderState::CheckItems(const Node& node, size_t most) {
  const size_t count = node.IsMap() ? node.members().size() : node.items().size();
  if (count <= most) return;
  Wrong(node, "must hold at most " + std::to_string(most) + ", not " + std::to_string(count),
        false);
}

void ReaderState::CheckWithin(const Node& node, Duration value, const Within& limits) {
  if (value >= limits.least && value <= limits.most) return;
  OutOfRange(node, FormatDuration(limits.least), FormatDuration(limits.most));
}

// A zero byte cannot be passed to a program, so no text of a job may hold one.
void ReaderState::CheckNoZero(const Node& node) {
  if (of_program() || node.text().find('\0') == std::string::npos) return;
  Wrong(node, "must not hold a zero byte", false);
}

void ReaderState::Add(Position position, std::string found, std::string message,
                      Severity severity) {
  if (problems_.size() > kMaxProblems || stopped()) return;
  if (problems_.size() == kMaxProblems) {
    problems_.push_back({.line = position.line,
                         .column = position.column,
                         .message = "too many problems; the rest is not shown"});
    return;
  }
  problems_.push_back({.path = path_,
                       .line = position.line,
                       .column = position.column,
                       .found = std::move(found),
                       .message = std::move(message),
                       .severity = severity});
}

Result<Node> ParseProgramJson(std::string_view json, size_t most, const std::string& path) {
  const std::string where = path.empty() ? "" : path + ": ";
  if (json.size() > most) {
    return Error::TooLarge(where + "over " + std::to_string(most) + " bytes");
  }
  Document document = ReadJson(json, Places::kUntold);
  if (!document.root) {
    return Error::Invalid(
        where + (document.problems.empty() ? "this is not JSON" : document.problems[0].message));
  }
  return *std::move(document.root);
}

}  // namespace lockstep::core
