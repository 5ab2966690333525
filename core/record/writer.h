// From a typed record to a document's tree, by the table of its fields (base/fields.h). Fields at
// their defaults are left out, except those that the table marks Always, Whole or Required.
//
//   std::string json = WriteJson(WriteRecord(status));
#ifndef LOCKSTEP_CORE_RECORD_WRITER_H_
#define LOCKSTEP_CORE_RECORD_WRITER_H_

#include <cmath>
#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/text/enum_names.h"
#include "base/text/quantity.h"
#include "base/wall_time.h"
#include "core/text/node.h"

namespace lockstep::core {

enum class Defaults : uint8_t { kOmit, kWrite };
enum class SignalsAs : uint8_t { kNames, kNumbers };

// A double as the shortest number that reads back the same.
Node NumberNode(double value);
// Whole seconds, or microseconds where there is a fraction.
Node TimeNode(WallTime value);
Node QuantityNode(const Quantity& value);
Node DurationNode(Duration value);
Node SignalNode(int signal, SignalsAs form);
// Its first bytes, cut between two characters.
std::string CutText(const std::string& text, size_t bytes);

class RecordWriter {
 public:
  explicit RecordWriter(Defaults defaults, SignalsAs signals = SignalsAs::kNames)
      : defaults_(defaults), signals_(signals) {}

  template <HasFields Struct>
  Node Write(const Struct& value) const {
    Node node = Node::Map();
    AddFields(value, node);
    return node;
  }

 private:
  template <HasFields Struct>
  void AddFields(const Struct& value, Node& node) const {
    static const Struct standard{};
    ForEachField<Struct>([&](const auto& field) {
      using Form = std::remove_cvref_t<decltype(field)>;
      const auto& member = value.*field.member;
      if constexpr (Form::template kHas<Inline>) {
        AddFields(member, node);
      } else {
        constexpr bool kRequired = Form::template kHas<Required>;
        constexpr bool kAlways = Form::template kHas<Always> || kRequired;
        if (IsAbsent(member)) {
          if (kAlways) node.Add(std::string(field.name), Node());
          return;
        }
        if constexpr (!kAlways && !Form::template kHas<Whole> && !kIsOptional<decltype(member)>) {
          if (defaults_ == Defaults::kOmit && member == standard.*field.member) return;
        }
        node.Add(std::string(field.name), WriteForm(member, field));
      }
    });
  }

  // Whether the value has no form in a document and is left out, or null.
  template <typename T>
  static bool IsAbsent(const std::optional<T>& value) {
    return !value;
  }
  static bool IsAbsent(const Node& value) { return value.IsNull(); }
  static bool IsAbsent(double value) { return !std::isfinite(value); }
  template <typename T>
  static bool IsAbsent(const T& /*value*/) {
    return false;
  }

  template <typename T>
  static constexpr bool kIsOptional = false;
  template <typename T>
  static constexpr bool kIsOptional<const std::optional<T>&> = true;

  template <typename T, typename Field>
  Node WriteForm(const T& value, const Field& field) const {
    if constexpr (Field::template kHas<Whole>) {
      return RecordWriter(Defaults::kWrite, signals_).WriteValue(value);
    } else if constexpr (Field::template kHas<InSeconds>) {
      return WriteSeconds(value);
    } else if constexpr (Field::template kHas<Signals>) {
      Node node = Node::List();
      for (const int signal : value) node.Append(SignalNode(signal, signals_));
      return node;
    } else if constexpr (Field::template kHas<CutTo>) {
      return Node::String(CutText(value, field.template Get<CutTo>().bytes));
    } else {
      return WriteValue(value);
    }
  }

  static Node WriteSeconds(Duration value) {
    return NumberNode(std::chrono::duration<double>(value).count());
  }
  static Node WriteSeconds(const std::optional<Duration>& value) { return WriteSeconds(*value); }

  template <HasFields Struct>
  Node WriteValue(const Struct& value) const {
    return Write(value);
  }
  static Node WriteValue(const Node& value) { return value; }
  static Node WriteValue(const std::string& value) { return Node::String(value); }
  static Node WriteValue(bool value) { return Node::Bool(value); }
  static Node WriteValue(std::integral auto value) {
    return Node::Integer(static_cast<int64_t>(value));
  }
  static Node WriteValue(double value) { return NumberNode(value); }
  static Node WriteValue(Duration value) { return DurationNode(value); }
  static Node WriteValue(const Quantity& value) { return QuantityNode(value); }
  static Node WriteValue(WallTime value) { return TimeNode(value); }
  template <NamedEnum E>
  static Node WriteValue(E value) {
    return Node::String(ToString(value));
  }
  template <HasText T>
  static Node WriteValue(const T& value) {
    return Node::String(AsText<T>::Format(value));
  }
  template <HasSurrogate T>
  Node WriteValue(const T& value) const {
    return WriteValue(Surrogate<T>::From(value));
  }
  template <typename T>
  Node WriteValue(const std::optional<T>& value) const {
    return WriteValue(*value);
  }
  template <typename T>
  Node WriteValue(const std::vector<T>& value) const {
    Node node = Node::List();
    for (const T& item : value) node.Append(WriteValue(item));
    return node;
  }
  template <typename Key, typename T>
  Node WriteValue(const std::map<Key, T>& value) const {
    Node node = Node::Map();
    for (const auto& [key, item] : value) node.Add(KeyText(key), WriteValue(item));
    return node;
  }

  static std::string KeyText(const std::string& key) { return key; }
  template <NamedEnum E>
  static std::string KeyText(E key) {
    return ToString(key);
  }

  Defaults defaults_;
  SignalsAs signals_;
};

template <HasFields Record>
Node WriteRecord(const Record& record) {
  return RecordWriter(Defaults::kOmit).Write(record);
}

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_RECORD_WRITER_H_
