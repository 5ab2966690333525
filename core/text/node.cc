#include "core/text/node.h"

#include <algorithm>

#include "core/text/text.h"

namespace lockstep::core {
namespace {

constexpr size_t kShownBytes = 60;

// The first characters of a text, cut between two of them.
std::string Shorten(const std::string& text) {
  if (text.size() <= kShownBytes) return text;
  size_t end = kShownBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

std::string ShowControls(const std::string& text) {
  std::string shown;
  for (const char c : text) {
    if (c == '\n') {
      shown += "\\n";
    } else if (c == '\t') {
      shown += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      shown += '?';
    } else {
      shown += c;
    }
  }
  return shown;
}

}  // namespace

// Here, where NodeMember is complete.
Node::Node() = default;
Node::Node(const Node&) = default;
Node::Node(Node&&) noexcept = default;
Node& Node::operator=(const Node&) = default;
Node& Node::operator=(Node&&) noexcept = default;
Node::~Node() = default;
Node::Node(Kind kind, Position position) : kind_(kind), position_(position) {}

Node Node::Bool(bool value) { return Scalar(Kind::kBool, value ? "true" : "false"); }

Node Node::Integer(int64_t value) { return Scalar(Kind::kInteger, std::to_string(value)); }

Node Node::Scalar(Kind kind, std::string text, Position position) {
  Node node(kind, position);
  node.text_ = std::move(text);
  return node;
}

Node Node::String(std::string text) { return Scalar(Kind::kString, std::move(text)); }
Node Node::List(Position position) { return Node(Kind::kList, position); }
Node Node::Map(Position position) { return Node(Kind::kMap, position); }

bool Node::IsEmpty() const {
  return IsNull() || (IsList() && items_.empty()) || (IsMap() && members_.empty());
}

const Node* Node::Find(std::string_view key) const {
  const auto member = std::ranges::find(members_, key, &NodeMember::key);
  return member == members_.end() ? nullptr : &member->value;
}

Node* Node::Find(std::string_view key) {
  return const_cast<Node*>(static_cast<const Node*>(this)->Find(key));
}

const Node* Node::Walk(std::initializer_list<std::string_view> keys) const {
  const Node* node = this;
  for (const std::string_view key : keys) {
    node = node->Find(key);
    if (node == nullptr) return nullptr;
  }
  return node;
}

Node& Node::Add(std::string key, Node value) {
  const Position position = value.position();
  return members_.emplace_back(NodeMember{std::move(key), position, std::move(value)}).value;
}

void Node::Erase(std::string_view key) {
  std::erase_if(members_, [&](const NodeMember& m) { return m.key == key; });
}

void Node::Append(Node item) { items_.push_back(std::move(item)); }

std::string Node::Describe() const {
  switch (kind_) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return text_;
    case Kind::kInteger:
    case Kind::kFloat:
      return "the number " + Shorten(text_);
    case Kind::kString:
      return "the text \"" + ShowControls(Shorten(text_)) + "\"";
    case Kind::kList:
      return "a list";
    case Kind::kMap:
      return "a mapping";
  }
  return "";
}

bool operator==(const Node& a, const Node& b) {
  if (a.kind_ != b.kind_ || a.text_ != b.text_ || a.items_ != b.items_) return false;
  return std::equal(a.members_.begin(), a.members_.end(), b.members_.begin(), b.members_.end(),
                    [](const NodeMember& x, const NodeMember& y) {
                      return x.key == y.key && x.value == y.value;
                    });
}

Node AsSent(const Node& node) {
  if (node.kind() == Node::Kind::kInteger && !IsJsonNumber(node.text())) {
    const std::optional<int64_t> value = Yaml11Integer(node.text());
    return value ? Node::Scalar(node.kind(), std::to_string(*value), node.position()) : node;
  }
  if (node.kind() == Node::Kind::kBool) {
    return Node::Scalar(node.kind(), Yaml11Truth(node.text()) ? "true" : "false", node.position());
  }
  if (node.IsScalar()) return node;
  Node made = node.IsMap() ? Node::Map(node.position()) : Node::List(node.position());
  for (const Node& item : node.items()) made.Append(AsSent(item));
  for (const NodeMember& member : node.members()) {
    if (member.value.IsNull()) continue;
    made.members().push_back({member.key, member.position, AsSent(member.value)});
  }
  return made;
}

Position SourceMap::Find(std::string_view path) const {
  while (true) {
    const auto entry = positions_.find(path);
    if (entry != positions_.end()) return entry->second;
    if (path.empty()) return {};
    const size_t end = path.find_last_of(".[");
    path = path.substr(0, end == std::string_view::npos ? 0 : end);
  }
}

}  // namespace lockstep::core
