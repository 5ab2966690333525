#include "core/model/read.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/duration.h"
#include "core/failure/signals.h"
#include "core/model/fields.h"
#include "core/text/text.h"

namespace lockstep::core {
namespace {

constexpr size_t kMaxProblems = 100;
constexpr size_t kMostLettersOfAmount = 64;  // of a duration or quantity

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

// What an API server adds to a job that it hands out: known, and nothing to Lockstep's reader.
template <typename Struct>
std::vector<std::string_view> ServerFields() {
  if constexpr (std::is_same_v<Struct, Metadata>) {
    return {"resourceVersion",   "generation",    "creationTimestamp",
            "deletionTimestamp", "managedFields", "ownerReferences",
            "finalizers",        "selfLink",      "deletionGracePeriodSeconds",
            "generateName"};
  }
  return {};
}

// What another launcher's field is called here. Names are compared without case, '_' and '-'.
struct ForeignName {
  std::string_view name;
  const char* instead;
};
constexpr std::array<ForeignName, 7> kForeignNames = {{
    {"numprocesses",
     "write processesPerMachine, the processes of one machine; accelerate's num_processes is the "
     "total: divide it by numMachines"},
    {"nprocpernode", "write processesPerMachine"},
    {"nnodes", "write numMachines"},
    {"machinerank", "remove it: every machine is given its rank at each start"},
    {"mainprocessip", "remove it: the machines find each other, and MASTER_ADDR is set"},
    {"mainprocessport", "remove it: the machines find each other, and MASTER_PORT is set"},
    {"mixedprecision",
     "write it into spec.env, as in {name: ACCELERATE_MIXED_PRECISION, value: bf16}; of the "
     "built-in trainer it is spec.trainer.precision"},
}};

std::string InsteadOf(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (c != '_' && c != '-') {
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  for (const ForeignName& foreign : kForeignNames) {
    if (foreign.name == letters) return std::string("; ") + foreign.instead;
  }
  return {};
}

std::string Join(const std::vector<std::string_view>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

template <NamedEnum E>
std::vector<std::string_view> NamesOf() {
  std::vector<std::string_view> names;
  for (const EnumName<E>& entry : kEnumNames<E>) names.push_back(entry.name);
  return names;
}

// Goes over the document with the field tables. `path_` is where it stands.
class Reader {
 public:
  explicit Reader(Origin origin) : origin_(origin) {}

  ParseResult Read(const Node& document) {
    ParseResult result;
    result.job.emplace();
    if (!document.IsMap()) {
      Wrong(document, "must be a mapping with apiVersion, kind, metadata and spec");
    } else {
      ReadTop(document, *result.job);
    }
    result.job->source = std::move(source_);
    result.problems = std::move(problems_);
    return result;
  }

 private:
  void ReadTop(const Node& document, TrainingJob& job) {
    source_.Set("", document.position());
    Expect(document, "apiVersion", kApiVersion);
    Expect(document, "kind", kKind);
    CheckNames(document, {"apiVersion", "kind", "metadata", "spec", "status"});
    Section(document, "metadata", job.metadata);
    Section(document, "spec", job.spec);
  }

  // apiVersion and kind: one text each.
  void Expect(const Node& document, const char* key, const std::string& value) {
    const Scope scope(*this, key);
    const Node* node = document.Find(key);
    if (node == nullptr) {
      Wrong(document, "is missing; write \"" + std::string(key) + ": " + value + "\"", false);
      return;
    }
    source_.Set(path_, node->position());
    if (node->IsString() && node->text() == value) return;
    std::string hint = "must be " + value;
    if (node->text() == "PyTorchJob" || node->text() == "TrainJob") {
      hint += "; `lockstep convert FILE` makes a TrainingJob of this file";
    }
    Wrong(*node, hint);
  }

  template <typename Struct>
  void Section(const Node& document, const char* key, Struct& value) {
    const Scope scope(*this, key);
    const Node* node = document.Find(key);
    if (node == nullptr) {
      Wrong(document, "is missing", false);
      return;
    }
    source_.Set(path_, node->position());
    ReadValue(*node, value);
  }

  template <HasFields Struct>
  void ReadValue(const Node& node, Struct& value) {
    if (!node.IsMap()) {
      Wrong(node, "must be a mapping of fields, as in {" + std::string(FieldNames<Struct>()[0]) +
                      ": ...}");
      return;
    }
    std::vector<std::string_view> known = FieldNames<Struct>();
    for (const std::string_view name : ServerFields<Struct>()) known.push_back(name);
    const bool open = std::is_same_v<Struct, Metadata> && origin_ == Origin::kApiServer;
    if (!open) CheckNames(node, known);
    ForEachField<Struct>([&](const auto& field) {
      const Node* child = node.Find(field.name);
      if (child == nullptr) return;
      const Scope scope(*this, field.name);
      source_.Set(path_, child->position());
      if (child->IsNull()) {
        NoValue(*child, kIsOptional<std::remove_cvref_t<decltype(value.*field.member)>>);
      } else {
        ReadForm(*child, value.*field.member, field.form);
      }
    });
  }

  template <typename T>
  void ReadForm(const Node& node, T& value, Plain /*form*/) {
    if (node.IsNull()) {  // an item: a field that is null is taken for absent
      Wrong(node, "has no value; remove it, or write one", false);
      return;
    }
    ReadValue(node, value);
  }

  template <typename T>
  void ReadForm(const Node& node, T& value, AtMost limit) {
    ReadForm(node, value, Plain{});
    if constexpr (std::is_same_v<T, std::string>) {
      CheckLetters(node, limit.most);
    } else {
      CheckItems(node, limit.most);
      if (limit.letters == 0) return;
      for (size_t i = 0; i < node.items().size(); ++i) {
        const Scope scope(*this, i);
        CheckLetters(node.items()[i], limit.letters);
      }
    }
  }

  void ReadForm(const Node& node, std::vector<int>& value, SignalNames form) {
    CheckItems(node, form.most);
    ReadItems(node, value, [&](const Node& item, int& signal) {
      const std::optional<int> parsed =
          item.IsString() ? ParseSignal(item.text()) : std::optional<int>();
      if (!parsed) {
        Wrong(item, "must be the name of a signal, as in SIGBUS" +
                        DidYouMean(item.text(), SignalNameList()));
        return;
      }
      signal = *parsed;
    });
  }

  void ReadValue(const Node& node, Node& value) {
    CheckOpaque(node);
    value = WithoutNulls(node);
  }

  template <typename T>
  void ReadValue(const Node& node, std::optional<T>& value) {
    if (node.IsNull()) {
      value.reset();
      return;
    }
    ReadValue(node, value.emplace());
  }

  template <typename T>
  void ReadValue(const Node& node, std::vector<T>& value) {
    ReadItems(node, value, [&](const Node& item, T& element) { ReadForm(item, element, Plain{}); });
  }

  template <typename T, typename ReadItem>
  void ReadItems(const Node& node, std::vector<T>& value, ReadItem&& read_item) {
    if (!node.IsList()) {
      const std::string shown = node.IsScalar() && !node.text().empty() ? node.text() : "...";
      Wrong(node, "must be a list; write [" + shown + "]");
      return;
    }
    value.clear();  // what is written replaces a default
    for (size_t i = 0; i < node.items().size(); ++i) {
      const Scope scope(*this, i);
      source_.Set(path_, node.items()[i].position());
      read_item(node.items()[i], value.emplace_back());
    }
  }

  template <typename T>
  void ReadValue(const Node& node, std::map<std::string, T>& value) {
    if (!node.IsMap()) {
      Wrong(node, "must be a mapping of names to values");
      return;
    }
    for (const NodeMember& member : node.members()) {
      const Scope scope(*this, member.key);
      source_.Set(path_, member.value.position());
      if (member.value.IsNull()) {
        NoValue(member.value, false);
      } else {
        ReadForm(member.value, value[member.key], Plain{});
      }
    }
  }

  void ReadValue(const Node& node, bool& value) {
    if (node.kind() != Node::Kind::kBool) {
      Wrong(node, "must be true or false");
    } else if (node.text() != "true" && node.text() != "false") {
      Wrong(node, "must be true or false; other words for them are read in different ways");
    } else {
      value = node.text() == "true";
    }
  }

  template <std::integral Int>
  void ReadValue(const Node& node, Int& value) {
    if (const std::optional<int64_t> whole = WholeFloat(node);
        whole && std::in_range<Int>(*whole)) {
      value = static_cast<Int>(*whole);
      return;
    }
    if (node.kind() != Node::Kind::kInteger) {
      const bool quoted = node.IsString() && PlainDecimal(node.text());
      Wrong(node,
            quoted ? "must be a whole number; write it without quotes" : "must be a whole number");
      return;
    }
    if (!PlainDecimal(node.text())) {
      Wrong(node, "must be a whole number in plain decimal digits, as in 16");
      return;
    }
    const char* begin = node.text().data();
    const char* end = begin + node.text().size();
    if (*begin == '+') ++begin;
    Int parsed = 0;
    const auto [at, error] = std::from_chars(begin, end, parsed);
    if (error != std::errc() || at != end) {
      Wrong(node, "must lie between " + std::to_string(std::numeric_limits<Int>::min()) + " and " +
                      std::to_string(std::numeric_limits<Int>::max()));
      return;
    }
    value = parsed;
  }

  void ReadValue(const Node& node, double& value) {
    double parsed = 0;
    const std::string& text = node.text();
    const char* end = text.data() + text.size();
    const char* begin = text.starts_with('+') ? text.data() + 1 : text.data();
    const bool number = node.kind() == Node::Kind::kInteger || node.kind() == Node::Kind::kFloat;
    const auto [at, error] = std::from_chars(begin, end, parsed);
    if (!number || error != std::errc() || at != end || !std::isfinite(parsed)) {
      Wrong(node, "must be a finite number, as in 0.1 or 3e-4");
      return;
    }
    value = parsed;
  }

  void ReadValue(const Node& node, std::string& value) {
    if (!node.IsString()) {
      Wrong(node, node.IsScalar() && !node.IsNull()
                      ? "must be text; put it in quotes: \"" + node.text() + "\""
                      : "must be text");
      return;
    }
    CheckText(node);
    value = node.text();
  }

  void ReadValue(const Node& node, Duration& value) {
    if (node.kind() == Node::Kind::kInteger || node.kind() == Node::Kind::kFloat) {
      Wrong(node, "must be a duration with its unit; for seconds write " + node.text() + "s");
      return;
    }
    if (!node.IsString()) {
      Wrong(node, "must be a duration, as in 30s, 1h30m or 500ms");
      return;
    }
    CheckLetters(node, kMostLettersOfAmount);
    const Result<Duration> parsed = ParseDuration(node.text());
    if (parsed.ok()) {
      value = *parsed;
    } else {
      Wrong(node, parsed.error().message, false);
    }
  }

  void ReadValue(const Node& node, Quantity& value) {
    const std::optional<int64_t> whole = WholeFloat(node);
    if (node.kind() == Node::Kind::kFloat && !whole) {
      Wrong(node, "must be text or a whole number; put it in quotes: \"" + node.text() + "\"");
      return;
    }
    if (!node.IsString() && node.kind() != Node::Kind::kInteger && !whole) {
      Wrong(node, "must be a quantity, as in 500m, 4 or 16Gi");
      return;
    }
    CheckLetters(node, kMostLettersOfAmount);
    const Result<Quantity> parsed = Quantity::Parse(whole ? std::to_string(*whole) : node.text());
    if (parsed.ok()) {
      value = *parsed;
    } else {
      Wrong(node, parsed.error().message, false);
    }
  }

  template <NamedEnum E>
  void ReadValue(const Node& node, E& value) {
    const std::vector<std::string_view> names = NamesOf<E>();
    const std::optional<E> parsed =
        node.IsString() ? ParseEnum<E>(node.text()) : std::optional<E>();
    if (!parsed) {
      Wrong(node, "must be " + Join(names) + DidYouMean(node.text(), names));
      return;
    }
    value = *parsed;
  }

  // A preset's name, or the sizes.
  void ReadValue(const Node& node, TrainerModel& value) {
    if (!node.IsMap()) {
      ReadValue(node, value.preset);
      return;
    }
    value.preset.clear();
    ReadValue<TrainerModel>(node, value);
  }

  void CheckNames(const Node& node, const std::vector<std::string_view>& known) {
    for (const NodeMember& member : node.members()) {
      if (std::find(known.begin(), known.end(), member.key) != known.end()) continue;
      const Scope scope(*this, member.key);
      const std::string instead = InsteadOf(member.key);
      Add(member.position, "",
          "unknown field" + (instead.empty() ? DidYouMean(member.key, known) : instead));
    }
  }

  static std::string DidYouMean(std::string_view name, const std::vector<std::string_view>& known) {
    const std::string_view nearest = NearestName(name, known);
    return nearest.empty() ? "" : "; did you mean \"" + std::string(nearest) + "\"?";
  }

  // No text of a job can hold a zero byte: none can be passed to a program.
  void CheckText(const Node& node) {
    if (node.text().find('\0') != std::string::npos) {
      Wrong(node, "must not hold a zero byte", false);
    }
  }

  // An API server takes null for a field that is absent.
  void NoValue(const Node& node, bool is_meant) {
    if (is_meant) return;
    Add(node.position(), "", "has no value and counts as absent; remove the line, or write one",
        Severity::kWarning);
  }

  void CheckLetters(const Node& node, size_t most) {
    if (!node.IsString() || CountLetters(node.text()) <= most) return;
    Wrong(node, "must be at most " + std::to_string(most) + " characters long", false);
  }

  void CheckItems(const Node& node, size_t most) {
    const size_t count = node.IsMap() ? node.members().size() : node.items().size();
    if (count <= most) return;
    Wrong(node, "must hold at most " + std::to_string(most) + ", not " + std::to_string(count),
          false);
  }

  // 4.0 and 1e1 are whole numbers in JSON, up to where a double can tell them apart.
  static std::optional<int64_t> WholeFloat(const Node& node) {
    constexpr double kMostWhole = 9007199254740991;
    double parsed = 0;
    if (node.kind() != Node::Kind::kFloat || !IsJsonNumber(node.text())) return std::nullopt;
    const char* end = node.text().data() + node.text().size();
    const auto [at, error] = std::from_chars(node.text().data(), end, parsed);
    if (error != std::errc() || at != end || parsed != std::trunc(parsed)) return std::nullopt;
    if (std::abs(parsed) > kMostWhole) return std::nullopt;
    return static_cast<int64_t>(parsed);
  }

  // What is handed through unread must mean the same to whoever reads it, in YAML or JSON.
  void CheckOpaque(const Node& node) {
    CheckText(node);
    const bool is_number = node.kind() == Node::Kind::kInteger || node.kind() == Node::Kind::kFloat;
    if (is_number && !IsJsonNumber(node.text())) {
      Wrong(node, "must be a number in plain decimal digits, or text in quotes");
    }
    if (node.kind() == Node::Kind::kBool && node.text() != "true" && node.text() != "false") {
      Wrong(node, "must be true or false, or text in quotes");
    }
    for (const Node& item : node.items()) CheckOpaque(item);
    for (const NodeMember& member : node.members()) CheckOpaque(member.value);
  }

  static bool PlainDecimal(const std::string& text) {
    const size_t start = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
    if (text.size() == start || (text[start] == '0' && text.size() > start + 1)) return false;
    return std::all_of(text.begin() + static_cast<std::ptrdiff_t>(start), text.end(),
                       [](char c) { return c >= '0' && c <= '9'; });
  }

  void Wrong(const Node& node, std::string message, bool show_found = true) {
    Add(node.position(), show_found ? node.Describe() : "", std::move(message));
  }

  void Add(Position position, std::string found, std::string message,
           Severity severity = Severity::kError) {
    if (problems_.size() > kMaxProblems) return;
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

  // One step down the document for as long as it lives.
  class Scope {
   public:
    Scope(Reader& reader, std::string_view key) : reader_(reader), size_(reader.path_.size()) {
      if (!reader_.path_.empty()) reader_.path_ += '.';
      reader_.path_ += key;
    }
    Scope(Reader& reader, size_t index) : reader_(reader), size_(reader.path_.size()) {
      reader_.path_ += "[" + std::to_string(index) + "]";
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { reader_.path_.resize(size_); }

   private:
    Reader& reader_;
    size_t size_;
  };

  const Origin origin_;
  std::string path_;
  SourceMap source_;
  std::vector<Problem> problems_;
};

}  // namespace

ParseResult ReadJob(const Node& document, Origin origin) { return Reader(origin).Read(document); }

}  // namespace lockstep::core
