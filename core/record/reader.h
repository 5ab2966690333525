// From a document's tree to a typed record, by the table of its fields (base/fields.h): one reader
// for what people write and for what programs send.
//
//   Result<GangStatus> status = ParseRecord<GangStatus>(body, kMaxStatusBody, "");
//
// In a user's document every problem is gathered, with its place and what to write instead. In a
// program's document, which may be of another version, unknown fields are ignored, null is absent,
// and reading stops at the first problem. Nothing throws; ReadJson limits depth and size.
#ifndef LOCKSTEP_CORE_RECORD_READER_H_
#define LOCKSTEP_CORE_RECORD_READER_H_

#include <concepts>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "base/text/ascii.h"
#include "base/text/enum_names.h"
#include "base/text/quantity.h"
#include "base/wall_time.h"
#include "core/text/node.h"
#include "core/text/problem.h"

namespace lockstep::core {

template <typename T, typename... Types>
concept OneOf = (std::same_as<T, Types> || ...);

// The author of the document.
enum class Author : uint8_t {
  kUser,       // an unknown field is a mistake
  kApiServer,  // has let it in, and may add fields to structs with kOthersFields
  kProgram,    // a Lockstep program of any version
};

// The part of the reader that is the same for all types: its path in the document, and the problems
// found so far.
class ReaderState {
 public:
  ReaderState(Author author, std::string path) : author_(author), path_(std::move(path)) {}
  virtual ~ReaderState() = default;
  ReaderState(const ReaderState&) = delete;
  ReaderState& operator=(const ReaderState&) = delete;

  // Adds a key or an index to the path for as long as it lives.
  class Scope {
   public:
    Scope(ReaderState& reader, std::string_view key);
    Scope(ReaderState& reader, size_t index);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { reader_.path_.resize(size_); }

   private:
    ReaderState& reader_;
    size_t size_;
  };

  // `show_found`: whether the message says what stood there.
  void Wrong(const Node& node, std::string message, bool show_found = true);
  // Records the place of the current path, for problems that are found later.
  void Place(const Node& node);

  bool of_program() const { return author_ == Author::kProgram; }
  // A program's document is read up to its first problem.
  bool stopped() const { return of_program() && !problems_.empty(); }
  // The first problem, as an error; only when there is one.
  Error FirstError() const;

  std::vector<Problem> TakeProblems() { return std::move(problems_); }
  SourceMap TakeSource() { return std::move(source_); }

 protected:
  static constexpr size_t kMostItems = 1024;  // of a program's list whose table says nothing

  // The end of the message about an unknown field: "; write ...". Empty: the nearest known name is
  // suggested.
  virtual std::string InPlaceOf(std::string_view /*name*/) const { return {}; }
  static std::string DidYouMean(std::string_view name, const std::vector<std::string_view>& known);

  void ReadScalar(const Node& node, bool& value);
  void ReadScalar(const Node& node, double& value);
  void ReadScalar(const Node& node, std::string& value);
  void ReadScalar(const Node& node, Duration& value);
  void ReadScalar(const Node& node, WallTime& value);
  void ReadScalar(const Node& node, Quantity& value);
  // A whole number in plain decimal digits; null, and a problem, if `node` is not one.
  std::optional<std::string_view> WholeNumber(const Node& node, std::string& buffer);
  void OutOfRange(const Node& node, const std::string& least, const std::string& most);
  void ReadSeconds(const Node& node, Duration& value);
  void ReadSignal(const Node& node, int& signal);
  void ReadName(const Node& node, const std::vector<std::string_view>& names);
  const std::string* Text(const Node& node);

  // Whether it is a mapping. Adds a problem if not, and for each unknown name unless `open`.
  bool IsMapOf(const Node& node, const std::vector<std::string_view>& known, bool open);
  bool IsListOf(const Node& node, size_t most);
  void Missing(const Node& node);
  // An API server takes null for a field that is absent.
  void NoValue(const Node& node);
  void CheckOpaque(const Node& node);
  void CheckLetters(const Node& node, size_t most);
  void CheckItems(const Node& node, size_t most);
  void CheckWithin(const Node& node, Duration value, const Within& limits);

  const Author author_;

 private:
  void CheckNoZero(const Node& node);
  void Add(Position position, std::string found, std::string message,
           Severity severity = Severity::kError);

  std::string path_;
  SourceMap source_;
  std::vector<Problem> problems_;
  bool too_large_ = false;
};

class RecordReader : public ReaderState {
 public:
  using ReaderState::ReaderState;

  template <HasFields Struct>
  void Read(const Node& node, Struct& value) {
    bool open = false;
    std::vector<std::string_view> known;
    if (!of_program()) {
      known = FieldNames<Struct>();
      known.insert(known.end(), kOthersFields<Struct>.begin(), kOthersFields<Struct>.end());
      open = !kOthersFields<Struct>.empty() && author_ == Author::kApiServer;
    }
    if (IsMapOf(node, known, open)) ReadFields(node, value);
  }

 private:
  template <typename T>
  static constexpr bool kIsOptional = false;
  template <typename T>
  static constexpr bool kIsOptional<std::optional<T>> = true;

  template <HasFields Struct>
  void ReadFields(const Node& node, Struct& value) {
    ForEachField<Struct>([&](const auto& field) {
      using Form = std::remove_cvref_t<decltype(field)>;
      if (stopped()) return;
      if constexpr (Form::template kHas<Inline>) {
        ReadFields(node, value.*field.member);
      } else {
        const Node* child = node.Find(field.name);
        if constexpr (Form::template kHas<Formerly>) {
          if (child == nullptr) child = node.Find(field.template Get<Formerly>().name);
        }
        if (child != nullptr && child->IsNull() && of_program()) child = nullptr;
        const Scope scope(*this, field.name);
        if (child == nullptr) {
          if constexpr (Form::template kHas<Required>) Missing(node);
          return;
        }
        Place(*child);
        using Member = std::remove_cvref_t<decltype(value.*field.member)>;
        if (!child->IsNull()) {
          ReadForm(*child, value.*field.member, field);
        } else if (!kIsOptional<Member>) {
          NoValue(*child);
        }
      }
    });
  }

  template <typename T, typename Field>
  void ReadForm(const Node& node, T& value, const Field& field) {
    size_t most = kMostItems;
    if constexpr (Field::template kHas<AtMost>) most = field.template Get<AtMost>().most;
    if constexpr (Field::template kHas<InSeconds>) {
      ReadOptional(node, value, [&](Duration& duration) { ReadSeconds(node, duration); });
    } else if constexpr (Field::template kHas<Signals>) {
      ReadItems(node, value, most,
                [&](const Node& item, int& signal) { ReadSignal(item, signal); });
    } else {
      ReadValue(node, value, most);
    }
    if constexpr (Field::template kHas<AtMost>) CheckMost<T>(node, field.template Get<AtMost>());
    if constexpr (Field::template kHas<Within>) {
      if (of_program() && !stopped()) CheckWithin(node, value, field.template Get<Within>());
    }
  }

  template <typename T>
  void CheckMost(const Node& node, const AtMost& limit) {
    if constexpr (std::same_as<T, std::string>) return CheckLetters(node, limit.most);
    CheckItems(node, limit.most);
    if (limit.letters == 0) return;
    for (size_t i = 0; i < node.items().size(); ++i) {
      const Scope scope(*this, i);
      CheckLetters(node.items()[i], limit.letters);
    }
  }

  template <typename Read>
  static void ReadOptional(const Node& /*node*/, Duration& value, Read&& read) {
    read(value);
  }
  template <typename Read>
  static void ReadOptional(const Node& /*node*/, std::optional<Duration>& value, Read&& read) {
    read(value.emplace());
  }

  // An item: a field that is null is taken for absent.
  template <typename T>
  void ReadItem(const Node& node, T& value) {
    if (!node.IsNull()) return ReadValue(node, value);
    Wrong(node, "has no value; remove it, or write a value", false);
  }

  template <typename T, typename Read>
  void ReadItems(const Node& node, std::vector<T>& value, size_t most, Read&& read) {
    if (!IsListOf(node, most)) return;
    value.clear();  // what is written replaces a default
    for (size_t i = 0; i < node.items().size() && !stopped(); ++i) {
      const Scope scope(*this, i);
      Place(node.items()[i]);
      read(node.items()[i], value.emplace_back());
    }
  }

  template <HasFields Struct>
  void ReadValue(const Node& node, Struct& value, size_t /*most*/ = 0) {
    Read(node, value);
  }

  void ReadValue(const Node& node, Node& value, size_t /*most*/ = 0) {
    CheckOpaque(node);
    value = AsSent(node);
  }

  template <typename T>
  void ReadValue(const Node& node, std::optional<T>& value, size_t most = kMostItems) {
    bool absent = node.IsNull();
    if constexpr (NamedEnum<T>) absent |= of_program() && node.IsString() && node.text().empty();
    if (absent) return value.reset();
    value = T();  // emplace() can't make a struct that is nested in the record
    ReadValue(node, *value, most);
  }

  template <typename T>
  void ReadValue(const Node& node, std::vector<T>& value, size_t most = kMostItems) {
    ReadItems(node, value, most, [&](const Node& item, T& element) { ReadItem(item, element); });
  }

  template <typename T>
  void ReadValue(const Node& node, std::map<std::string, T>& value, size_t /*most*/ = 0) {
    if (!node.IsMap()) return Wrong(node, "must be a mapping of names to values");
    for (const NodeMember& member : node.members()) {
      const Scope scope(*this, member.key);
      Place(member.value);
      if (member.value.IsNull()) {
        NoValue(member.value);
      } else {
        ReadValue(member.value, value[member.key]);
      }
    }
  }

  template <NamedEnum Key, typename T>
  void ReadValue(const Node& node, std::map<Key, T>& value, size_t /*most*/ = 0) {
    if (!node.IsMap()) return Wrong(node, "must be a mapping of names to values");
    for (const NodeMember& member : node.members()) {
      const Scope scope(*this, member.key);
      const std::optional<Key> key = ParseEnum<Key>(member.key);
      if (!key) return Wrong(node, "is not a known name", false);
      ReadValue(member.value, value[*key]);
    }
  }

  template <std::integral Int>
    requires(!std::same_as<Int, bool>)
  void ReadValue(const Node& node, Int& value, size_t /*most*/ = 0) {
    std::string buffer;
    const std::optional<std::string_view> digits = WholeNumber(node, buffer);
    if (!digits) return;
    const std::optional<Int> parsed = ParseNumber<Int>(*digits);
    if (!parsed) {
      return OutOfRange(node, std::to_string(std::numeric_limits<Int>::min()),
                        std::to_string(std::numeric_limits<Int>::max()));
    }
    value = *parsed;
  }

  template <NamedEnum E>
  void ReadValue(const Node& node, E& value, size_t /*most*/ = 0) {
    const std::optional<E> parsed =
        node.IsString() ? ParseEnum<E>(node.text()) : std::optional<E>();
    if (parsed) {
      value = *parsed;
      return;
    }
    std::vector<std::string_view> names;
    for (const EnumName<E>& entry : kEnumNames<E>) names.emplace_back(entry.name);
    ReadName(node, names);
  }

  template <HasText T>
  void ReadValue(const Node& node, T& value, size_t /*most*/ = 0) {
    const std::string* text = Text(node);
    if (text != nullptr) Take(node, AsText<T>::Parse(*text), value);
  }

  template <HasSurrogate T>
  void ReadValue(const Node& node, T& value, size_t most = kMostItems) {
    typename Surrogate<T>::Type surrogate;
    ReadValue(node, surrogate, most);
    if (!stopped()) Take(node, Surrogate<T>::To(surrogate), value);
  }

  template <typename T>
  void Take(const Node& node, Result<T> parsed, T& value) {
    if (!parsed.ok()) return Wrong(node, parsed.error().message, false);
    value = *std::move(parsed);
  }

  template <typename T>
    requires OneOf<T, bool, double, std::string, Duration, WallTime, Quantity>
  void ReadValue(const Node& node, T& value, size_t /*most*/ = 0) {
    ReadScalar(node, value);
  }
};

// A program's record; `path` is what the error calls it.
template <HasFields Record>
Result<Record> ReadRecord(const Node& document, std::string path) {
  RecordReader reader(Author::kProgram, std::move(path));
  Record record;
  reader.Read(document, record);
  if (reader.stopped()) return reader.FirstError();
  return record;
}

// The tree of a program's JSON. TooLarge: more than `most` bytes; Invalid: not JSON.
Result<Node> ParseProgramJson(std::string_view json, size_t most, const std::string& path);

template <HasFields Record>
Result<Record> ParseRecord(std::string_view json, size_t most, const std::string& path) {
  const Result<Node> document = ParseProgramJson(json, most, path);
  if (!document.ok()) return document.error();
  return ReadRecord<Record>(*document, path);
}

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_RECORD_READER_H_
