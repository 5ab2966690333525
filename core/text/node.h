// Node: the tree of a document, YAML or JSON, before it is read into a typed record. The readers of
// core/text and core/record's writer make it. Every node knows its place in the text. Fields that
// Lockstep hands through unread (the pod template, valueFrom) stay Nodes.
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

// Line and column count from 1; 0 is unknown.
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

  // The value of a map's key; null when the key is absent or this is no map.
  const Node* Find(std::string_view key) const;
  Node* Find(std::string_view key);
  // Follows keys from here: Walk({"spec", "template"}).
  const Node* Walk(std::initializer_list<std::string_view> keys) const;
  // Appends; the caller knows that the key is new. Returns the value's place.
  Node& Add(std::string key, Node value);
  void Erase(std::string_view key);
  void Append(Node item);

  // The node in a message's words: "the number 3", "the text \"abc\"", "a list".
  std::string Describe() const;

  // Positions are not compared.
  friend bool operator==(const Node& a, const Node& b);

 private:
  Node(Kind kind, Position position);

  Kind kind_ = Kind::kNull;
  Position position_;
  std::string text_;
  std::vector<Node> items_;
  std::vector<NodeMember> members_;
};

// A copy as kubectl sends it, at any depth: integers and truths as JSON has them (420 for 0644,
// true for yes), without members that are null, which an API server takes for absent.
Node AsSent(const Node& node);

struct NodeMember {
  std::string key;
  Position position;  // of the key
  Node value;
};

// The position of each path of a document: "spec.failurePolicy.rules[0].action".
class SourceMap {
 public:
  void Set(const std::string& path, Position position) { positions_[path] = position; }
  // The position of the path, else of its nearest parent.
  Position Find(std::string_view path) const;
  bool Has(std::string_view path) const { return positions_.find(path) != positions_.end(); }

 private:
  std::map<std::string, Position, std::less<>> positions_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_TEXT_NODE_H_
