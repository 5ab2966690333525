// Node: a document as it was written, before it has a meaning. YAML and JSON both become this one
// small tree; the typed reader goes over it, and the writer makes it. Every node knows where it
// stood. Fields that Lockstep hands through unread (the pod template, valueFrom) stay Nodes.
#ifndef LOCKSTEP_CORE_TEXT_NODE_H_
#define LOCKSTEP_CORE_TEXT_NODE_H_

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::core {

// Both from 1; 0 is unknown.
struct Position {
  int line = 0;
  int column = 0;
};

class Node;
struct NodeMember;

class Node {
 public:
  enum class Kind : uint8_t {
    kNull,
    kBool,
    kInteger,  // of any length: the text is kept
    kFloat,    // as text too: 1e3, 0.5
    kString,
    kList,
    kMap,
  };

  Node();
  Node(const Node&);
  Node(Node&&) noexcept;
  Node& operator=(const Node&);
  Node& operator=(Node&&) noexcept;
  ~Node();

  static Node Bool(bool value);
  static Node Integer(int64_t value);
  static Node Scalar(Kind kind, std::string text, Position position = {});
  static Node String(std::string text);
  static Node List(Position position = {});
  static Node Map(Position position = {});

  Kind kind() const { return kind_; }
  bool IsNull() const { return kind_ == Kind::kNull; }
  bool IsMap() const { return kind_ == Kind::kMap; }
  bool IsList() const { return kind_ == Kind::kList; }
  bool IsString() const { return kind_ == Kind::kString; }
  bool IsScalar() const { return !IsMap() && !IsList(); }
  // No members, no items, or null.
  bool IsEmpty() const;
  const Position& position() const { return position_; }
  void set_position(Position position) { position_ = position; }

  // A scalar's text; "true" and "false" for a bool, "null" for null.
  const std::string& text() const { return text_; }
  const std::vector<Node>& items() const { return items_; }
  std::vector<Node>& items() { return items_; }
  const std::vector<NodeMember>& members() const { return members_; }
  std::vector<NodeMember>& members() { return members_; }

  // The value of a map's key; null when there is none or this is no map.
  const Node* Find(std::string_view key) const;
  Node* Find(std::string_view key);
  // Follows keys from here: Walk({"spec", "template"}).
  const Node* Walk(std::initializer_list<std::string_view> keys) const;
  // Appends; the caller knows that the key is new. Returns the value's place.
  Node& Add(std::string key, Node value);
  void Erase(std::string_view key);
  void Append(Node item);

  // "the number 3", "the text \"abc\"", "a list": what a message says was found.
  std::string Describe() const;

  // Positions don't count.
  friend bool operator==(const Node& a, const Node& b);

 private:
  Node(Kind kind, Position position);

  Kind kind_ = Kind::kNull;
  Position position_;
  std::string text_;
  std::vector<Node> items_;
  std::vector<NodeMember> members_;
};

// Less the members that are null, at any depth: to an API server they are absent.
Node WithoutNulls(const Node& node);

struct NodeMember {
  std::string key;
  Position position;  // of the key
  Node value;
};

// Where each path of a document stood: "spec.failurePolicy.rules[0].action".
class SourceMap {
 public:
  void Set(const std::string& path, Position position) { positions_[path] = position; }
  // The path's own place, else its nearest parent's.
  Position Find(std::string_view path) const;
  bool Has(std::string_view path) const { return positions_.find(path) != positions_.end(); }

 private:
  std::map<std::string, Position, std::less<>> positions_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_TEXT_NODE_H_
