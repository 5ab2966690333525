#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/text/text.h"

namespace lockstep::core {
namespace {

constexpr size_t kMaxExpandedBytes = 4 * kMaxDocumentBytes;

Position At(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

// Thrown to end the parse; ReadYaml turns it into a Problem.
class Refused : public std::runtime_error {
 public:
  Refused(Position position, const std::string& message)
      : std::runtime_error(message), position(position) {}
  Position position;
};

// Builds the tree from yaml-cpp's events, which hold each node's place. yaml-cpp's own Node is not
// used: it keeps no places of keys, merges duplicate keys and expands aliases without a limit.
class YamlTree : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { document_ = At(mark); }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Place(Node::Scalar(Node::Kind::kNull, "null", At(mark)), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto target = anchors_.find(anchor);
    if (target == anchors_.end()) {
      throw Refused(At(mark), "this alias is inside the value that it names; write the value out");
    }
    Node copy = target->second;
    copy.set_position(At(mark));
    Count(copy);
    Place(std::move(copy), 0);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Node::Kind kind = Node::Kind::kString;
    if (tag == "?" && value == "<<" && !InValue()) {
      open_.back().merges = true;
      return TakeKey(open_.back(), Node::Scalar(kind, value, At(mark)));
    }
    if (tag == "?") {
      kind = IsYaml11Bool(value) && InValue() ? Node::Kind::kBool : PlainScalarKind(value);
    } else if (tag != "!" && tag != "tag:yaml.org,2002:str") {
      throw Refused(At(mark), "the tag " + tag + " is not supported; write the value without it");
    }
    std::string text = value;
    if (kind == Node::Kind::kBool && !IsYaml11Bool(value)) {
      text = value[0] == 't' || value[0] == 'T' ? "true" : "false";
    }
    Node node = Node::Scalar(kind, std::move(text), At(mark));
    Count(node);
    Place(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    Open(Node::List(At(mark)), tag, anchor);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    Open(Node::Map(At(mark)), tag, anchor);
  }
  void OnMapEnd() override { Close(); }

  Node TakeRoot() { return std::move(root_); }
  Position document() const { return document_; }
  std::vector<Problem> TakeProblems() { return std::move(problems_); }

 private:
  struct OpenNode {
    Node node;
    YAML::anchor_t anchor = 0;
    bool has_key = false;  // of a map: the key is read and its value comes next
    bool merges = false;   // likewise: it is <<
    std::string key{};
    Position key_position{};
    std::set<std::string> keys{};
    std::vector<Node> merged{};  // mappings whose members are included here
  };

  bool InValue() const {
    return open_.empty() || open_.back().node.IsList() || open_.back().has_key;
  }

  void Count(const Node& node) {
    bytes_ += node.text().size();
    ++nodes_;
    if (nodes_ > kMaxNodes || bytes_ > kMaxExpandedBytes) {
      throw Refused(node.position(), "the document is too large once its aliases are written out");
    }
    for (const Node& item : node.items()) Count(item);
    for (const NodeMember& member : node.members()) {
      bytes_ += member.key.size();
      Count(member.value);
    }
  }

  void Open(Node node, const std::string& tag, YAML::anchor_t anchor) {
    if (tag != "?" && tag != "!" && tag != "tag:yaml.org,2002:map" &&
        tag != "tag:yaml.org,2002:seq") {
      throw Refused(node.position(), "the tag " + tag + " is not supported; leave it out");
    }
    if (open_.size() >= static_cast<size_t>(kMaxDepth)) {
      throw Refused(node.position(),
                    "nested more than " + std::to_string(kMaxDepth) + " levels deep");
    }
    if (!InValue()) throw Refused(node.position(), "a key must be text, not a list or a mapping");
    Count(node);
    open_.push_back({.node = std::move(node), .anchor = anchor});
  }

  void Close() {
    OpenNode closed = std::move(open_.back());
    open_.pop_back();
    for (Node& from : closed.merged) {
      for (NodeMember& member : from.members()) {
        if (!closed.keys.insert(member.key).second) continue;
        closed.node.Add(std::move(member.key), std::move(member.value));
        closed.node.members().back().position = member.position;
      }
    }
    Place(std::move(closed.node), closed.anchor);
  }

  void Place(Node node, YAML::anchor_t anchor) {
    if (anchor != 0) {
      // A node with an anchor is also kept for its aliases.
      Count(node);
      anchors_[anchor] = node;
    }
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    OpenNode& parent = open_.back();
    if (parent.node.IsList()) {
      parent.node.Append(std::move(node));
    } else if (!parent.has_key) {
      TakeKey(parent, node);
    } else {
      parent.has_key = false;
      const bool merges = std::exchange(parent.merges, false);
      // yaml-cpp gives a value that is not written the place of the next token.
      if (node.IsNull()) node.set_position(parent.key_position);
      if (!parent.keys.insert(parent.key).second) {
        problems_.push_back({.path = parent.key,
                             .line = parent.key_position.line,
                             .column = parent.key_position.column,
                             .message = "this key appears twice; remove one of them"});
        return;
      }
      if (merges) return Merge(parent, std::move(node));
      parent.node.Add(std::move(parent.key), std::move(node));
      parent.node.members().back().position = parent.key_position;
    }
  }

  // The mapping's own members come first, then the merged mappings in their order.
  static void Merge(OpenNode& parent, Node node) {
    std::vector<Node> from;
    if (node.IsList()) {
      from = std::move(node.items());
    } else {
      from.push_back(std::move(node));
    }
    for (Node& each : from) {
      if (!each.IsMap()) {
        throw Refused(parent.key_position,
                      "a merge key (<<) takes a mapping, or a list of mappings, as in <<: *name");
      }
      parent.merged.push_back(std::move(each));
    }
  }

  static void TakeKey(OpenNode& parent, const Node& node) {
    if (!node.IsScalar() || node.IsNull()) {
      throw Refused(node.position(), "a key must be text");
    }
    parent.has_key = true;
    parent.key = node.text();
    parent.key_position = node.position();
  }

  std::vector<OpenNode> open_;
  std::map<YAML::anchor_t, Node> anchors_;
  Node root_;
  Position document_;
  int nodes_ = 0;
  size_t bytes_ = 0;
  std::vector<Problem> problems_;
};

Problem NotYaml(Position position, std::string message) {
  return {.line = position.line, .column = position.column, .message = std::move(message)};
}

// yaml-cpp's message, without its prefix "yaml-cpp: error at line ...".
Problem FromException(const YAML::Exception& e) {
  return NotYaml(At(e.mark), "this is not YAML: " + e.msg);
}

Document ParseDocuments(std::string_view text) {
  Document document;
  std::istringstream stream{std::string(text)};
  YAML::Parser parser(stream);
  Position last;
  while (true) {
    YamlTree builder;
    if (!parser.HandleNextDocument(builder)) break;
    // yaml-cpp takes a sign that begins nothing (",") for an empty document, and never passes it.
    const Position here = builder.document();
    if (here.line == last.line && here.column == last.column) {
      throw Refused(here, "this is not YAML: no value can begin like this");
    }
    last = here;
    for (Problem& problem : builder.TakeProblems()) document.problems.push_back(std::move(problem));
    Node root = builder.TakeRoot();
    if (root.IsNull()) continue;
    if (document.root) {
      document.problems.push_back(
          NotYaml(root.position(), "a second document starts here; keep one job in a file"));
      break;
    }
    document.root = std::move(root);
  }
  return document;
}

}  // namespace

Document ReadYaml(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  Document document;
  if (std::optional<Problem> problem = CheckText(text)) {
    document.problems.push_back(*std::move(problem));
    return document;
  }
  try {
    document = ParseDocuments(text);
  } catch (const Refused& e) {
    document.problems.push_back(NotYaml(e.position, e.what()));
  } catch (const YAML::Exception& e) {
    document.problems.push_back(FromException(e));
  } catch (const std::exception& e) {
    document.problems.push_back(NotYaml({}, std::string("this is not YAML: ") + e.what()));
  }
  if (!document.root && document.problems.empty()) {
    document.problems.push_back(NotYaml({}, "the file is empty; write a TrainingJob"));
  }
  if (!document.problems.empty()) document.root.reset();
  return document;
}

}  // namespace lockstep::core
