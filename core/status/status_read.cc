#include <algorithm>
#include <charconv>
#include <concepts>
#include <utility>

#include "base/duration.h"
#include "core/status/status_fields.h"
#include "core/text/text.h"

namespace lockstep::core {
namespace {

// More than any list of a status that Trim let through, and enough for the ranges of attempts.
constexpr size_t kMaxItems = MachineAttempts::kMost;

template <typename Int>
bool ParseInteger(std::string_view text, Int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Goes over the document with the field tables and stops at the first thing that is wrong.
class StatusReader {
 public:
  Result<JobStatus> Read(const Node& document) {
    JobStatus status;
    ReadValue(document, status);
    if (error_) return *error_;
    return status;
  }

 private:
  template <HasFields Struct>
  void ReadValue(const Node& node, Struct& value) {
    if (!node.IsMap()) return Wrong("must be an object, not " + node.Describe());
    ReadFields(node, value);
  }

  template <HasFields Struct>
  void ReadFields(const Node& node, Struct& value) {
    ForEachField<Struct>([&](const auto& field) {
      using Form = std::remove_cvref_t<decltype(field.form)>;
      if constexpr (std::same_as<Form, Inline>) {
        ReadFields(node, value.*field.member);
      } else {
        const Node* child = node.Find(field.name);
        if (child != nullptr && !child->IsNull()) ReadAt(field.name, *child, value.*field.member);
      }
    });
  }

  // One step down the document.
  template <typename T>
  void ReadAt(std::string_view key, const Node& node, T& value) {
    if (error_) return;
    const size_t size = path_.size();
    path_.append(".").append(key);
    ReadValue(node, value);
    path_.resize(size);
  }

  template <typename T>
  void ReadValue(const Node& node, std::optional<T>& value) {
    ReadValue(node, value.emplace());
  }

  template <typename T>
  void ReadValue(const Node& node, std::vector<T>& value) {
    if (!node.IsList()) return Wrong("must be a list, not " + node.Describe());
    if (node.items().size() > kMaxItems) return TooMany();
    for (size_t i = 0; i < node.items().size(); ++i) {
      ReadAt(std::to_string(i), node.items()[i], value.emplace_back());
    }
  }

  template <NamedEnum Key, typename T>
  void ReadValue(const Node& node, std::map<Key, T>& value) {
    if (!node.IsMap()) return Wrong("must be an object, not " + node.Describe());
    for (const NodeMember& member : node.members()) {
      const std::optional<Key> key = ParseEnum<Key>(member.key);
      if (!key) return Wrong("unknown name " + member.key);
      ReadAt(member.key, member.value, value[*key]);
    }
  }

  template <std::integral Int>
  void ReadValue(const Node& node, Int& value) {
    if (node.kind() != Node::Kind::kInteger || !ParseInteger(node.text(), value)) {
      Wrong("must be an integer in range, not " + node.Describe());
    }
  }

  void ReadValue(const Node& node, std::string& value) {
    if (const std::string* text = Text(node)) value = *text;
  }

  template <NamedEnum E>
  void ReadValue(const Node& node, E& value) {
    const std::string* text = Text(node);
    if (text == nullptr) return;
    const std::optional<E> parsed = ParseEnum<E>(*text);
    if (!parsed) return Wrong("unknown name " + *text);
    value = *parsed;
  }

  void ReadValue(const Node& node, Duration& value) {
    if (const std::string* text = Text(node)) Take(ParseDuration(*text), value);
  }

  void ReadValue(const Node& node, WallTime& value) {
    if (const std::string* text = Text(node)) Take(ParseWallTime(*text), value);
  }

  void ReadValue(const Node& node, MachineAttempts& value) {
    std::vector<AttemptRange> ranges;
    ReadValue(node, ranges);
    if (!error_) Take(MachineAttempts::FromRanges(ranges), value);
  }

  void ReadValue(const Node& node, Generation& value) {
    const std::string* text = Text(node);
    if (text == nullptr || text->empty()) return;
    const size_t dash = std::min(text->find('-'), text->size());
    const std::string_view whole = *text;
    if (dash == whole.size() || !ParseInteger(whole.substr(0, dash), value.attempt) ||
        !ParseInteger(whole.substr(dash + 1), value.n)) {
      Wrong("must be a generation, as in 2-5, not " + node.Describe());
    }
  }

  template <typename T>
  void Take(Result<T> parsed, T& value) {
    if (!parsed.ok()) return Wrong(parsed.error().message);
    value = *std::move(parsed);
  }

  const std::string* Text(const Node& node) {
    if (node.IsString()) return &node.text();
    Wrong("must be a string, not " + node.Describe());
    return nullptr;
  }

  void Wrong(const std::string& message) { error_ = Error::Invalid(path_ + ": " + message); }
  void TooMany() {
    error_ = Error::TooLarge(path_ + ": holds more than " + std::to_string(kMaxItems));
  }

  std::string path_ = "status";
  std::optional<Error> error_;
};

}  // namespace

Result<JobStatus> ReadJobStatus(const Node* status) {
  if (status == nullptr || status->IsNull()) return JobStatus{};
  return StatusReader().Read(*status);
}

Result<JobStatus> ParseJobStatus(std::string_view json) {
  Document document = ReadJson(json);
  if (!document.root) {
    return Error::Invalid(document.problems.empty() ? "status: no JSON"
                                                    : "status: " + document.problems[0].message);
  }
  return ReadJobStatus(&*document.root);
}

}  // namespace lockstep::core
