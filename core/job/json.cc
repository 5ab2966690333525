#include "core/job/json.h"

#include <array>
#include <charconv>

#include "base/duration.h"
#include "core/job/fields.h"
#include "core/job/signals.h"
#include "core/job/text.h"

namespace lockstep::core {
namespace {

// A double as the shortest text that reads back the same.
std::string ShortestText(double value) {
  std::array<char, 32> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), end};
}

class Writer {
 public:
  explicit Writer(Defaults defaults) : defaults_(defaults) {}

  template <HasFields Struct>
  Node Write(const Struct& value) const {
    const Struct standard{};
    Node node = Node::Map();
    ForEachField<Struct>([&](const auto& field) {
      const auto& member = value.*field.member;
      if (defaults_ == Defaults::kOmit && member == standard.*field.member) return;
      if (IsAbsent(member)) return;
      node.Add(std::string(field.name), WriteForm(member, field.form));
    });
    return node;
  }

 private:
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

  template <typename T>
  Node WriteForm(const T& value, Plain /*form*/) const {
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
  Node Write(int32_t value) const { return Node::Integer(value); }
  Node Write(int64_t value) const { return Node::Integer(value); }
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
  template <typename T>
  Node Write(const std::map<std::string, T>& value) const {
    Node node = Node::Map();
    for (const auto& [key, item] : value) node.Add(key, Write(item));
    return node;
  }
  Node Write(const TrainerModel& value) const {
    if (!value.preset.empty()) return Node::String(value.preset);
    return Write<TrainerModel>(value);
  }

  Defaults defaults_;
};

}  // namespace

Node ToNode(const TrainingJob& job, Defaults defaults) {
  // Metadata has no defaults to show.
  Node metadata = Writer(Defaults::kOmit).Write(job.metadata);
  Node document = Node::Map();
  document.Add("apiVersion", Node::String(kApiVersion));
  document.Add("kind", Node::String(kKind));
  document.Add("metadata", std::move(metadata));
  document.Add("spec", Writer(defaults).Write(job.spec));
  return document;
}

std::string ToJson(const TrainingJob& job, Defaults defaults) {
  return WriteJson(ToNode(job, defaults));
}

std::string ToYaml(const TrainingJob& job, Defaults defaults) {
  return WriteYaml(ToNode(job, defaults));
}

}  // namespace lockstep::core
