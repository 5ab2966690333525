// From a typed value to a document's tree, by the table of its fields (core/model/fields.h).
// Private to the writers of core.
#ifndef LOCKSTEP_CORE_MODEL_FIELD_WRITER_H_
#define LOCKSTEP_CORE_MODEL_FIELD_WRITER_H_

#include <array>
#include <charconv>
#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/duration.h"
#include "base/quantity.h"
#include "base/wall_time.h"
#include "core/failure/generation.h"
#include "core/failure/signals.h"
#include "core/model/fields.h"
#include "core/model/json.h"
#include "core/model/machine_attempts.h"
#include "core/text/text.h"

namespace lockstep::core {

class FieldWriter {
 public:
  explicit FieldWriter(Defaults defaults) : defaults_(defaults) {}

  template <HasFields Struct>
  Node Write(const Struct& value) const {
    Node node = Node::Map();
    AddFields(value, node);
    return node;
  }

 private:
  template <HasFields Struct>
  void AddFields(const Struct& value, Node& node) const {
    const Struct standard{};
    ForEachField<Struct>([&](const auto& field) {
      const auto& member = value.*field.member;
      using Form = std::remove_cvref_t<decltype(field.form)>;
      if constexpr (std::same_as<Form, Inline>) {
        AddFields(member, node);
      } else {
        const bool always = defaults_ == Defaults::kWrite || std::same_as<Form, Always>;
        if (!always && member == standard.*field.member) return;
        if (IsAbsent(member)) return;
        node.Add(std::string(field.name), WriteForm(member, field.form));
      }
    });
  }

  // What has no text of its own in a file: there it is absent, never null.
  template <typename T>
  static bool IsAbsent(const std::optional<T>& value) {
    return !value;
  }
  static bool IsAbsent(const Node& value) { return value.IsNull(); }
  template <typename T>
  static bool IsAbsent(const T& /*value*/) {
    return false;
  }

  template <typename T, typename Form>
  Node WriteForm(const T& value, Form /*form*/) const {
    return Write(value);
  }
  Node WriteForm(const std::vector<int>& value, SignalNames /*form*/) const {
    Node node = Node::List();
    for (const int signal : value) node.Append(Node::String(SignalName(signal)));
    return node;
  }

  Node Write(const Node& value) const { return value; }
  Node Write(const std::string& value) const { return Node::String(value); }
  Node Write(bool value) const { return Node::Bool(value); }
  Node Write(std::integral auto value) const { return Node::Integer(static_cast<int64_t>(value)); }
  Node Write(double value) const { return Node::Scalar(Node::Kind::kFloat, ShortestText(value)); }
  Node Write(Duration value) const { return Node::String(FormatDuration(value)); }
  Node Write(const Quantity& value) const {
    std::string text = value.ToString();
    const Node::Kind kind = PlainScalarKind(text);
    return Node::Scalar(kind, std::move(text));
  }
  template <NamedEnum E>
  Node Write(E value) const {
    return Node::String(ToString(value));
  }
  template <typename T>
  Node Write(const std::optional<T>& value) const {
    return Write(*value);
  }
  template <typename T>
  Node Write(const std::vector<T>& value) const {
    Node node = Node::List();
    for (const T& item : value) node.Append(Write(item));
    return node;
  }
  template <typename Key, typename T>
  Node Write(const std::map<Key, T>& value) const {
    Node node = Node::Map();
    for (const auto& [key, item] : value) node.Add(KeyText(key), Write(item));
    return node;
  }
  Node Write(const TrainerModel& value) const {
    if (!value.preset.empty()) return Node::String(value.preset);
    return Write<TrainerModel>(value);
  }
  Node Write(WallTime value) const {
    const bool whole = value == std::chrono::floor<seconds>(value);
    return Node::String(whole ? FormatWallTime(value) : FormatMicroTime(value));
  }
  Node Write(const Generation& value) const { return Node::String(value.ToString()); }
  Node Write(const MachineAttempts& value) const { return Write(value.Ranges()); }

  static std::string KeyText(const std::string& key) { return key; }
  template <NamedEnum E>
  static std::string KeyText(E key) {
    return ToString(key);
  }

  // A double as the shortest text that reads back the same.
  static std::string ShortestText(double value) {
    std::array<char, 32> buffer{};
    const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
    return {buffer.data(), end};
  }

  Defaults defaults_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_MODEL_FIELD_WRITER_H_
