#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "core/text/text.h"

namespace lockstep::core {
namespace {

// Keeps how far the parser has read: nlohmann's events carry no place.
class TrackingIterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackingIterator() = default;
  TrackingIterator(const char* at, const char** place) : at_(at), place_(place) {}

  reference operator*() const { return *at_; }
  TrackingIterator& operator++() {
    ++at_;
    *place_ = at_;
    return *this;
  }
  TrackingIterator operator++(int) {
    const TrackingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const TrackingIterator& a, const TrackingIterator& b) {
    return a.at_ == b.at_;
  }

 private:
  const char* at_ = nullptr;
  const char** place_ = nullptr;
};

// Offsets to lines and columns, going forward only.
class LineCounter {
 public:
  explicit LineCounter(std::string_view text) : text_(text) {}

  Position At(size_t offset) {
    if (offset < offset_) {
      offset_ = 0;
      position_ = {1, 1};
    }
    for (; offset_ < std::min(offset, text_.size()); ++offset_) {
      if (text_[offset_] == '\n') {
        position_ = {position_.line + 1, 1};
      } else if ((static_cast<unsigned char>(text_[offset_]) & 0xC0U) != 0x80U) {
        ++position_.column;
      }
    }
    return position_;
  }

 private:
  std::string_view text_;
  size_t offset_ = 0;
  Position position_{1, 1};
};

class JsonTree {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  // `place`: the parser's position; null: positions are not needed.
  JsonTree(std::string_view text, const char* const* place)
      : text_(text), lines_(text), place_(place) {}

  bool null() { return Place(Node::Scalar(Node::Kind::kNull, "null", WordStart())); }
  bool boolean(bool value) {
    return Place(Node::Scalar(Node::Kind::kBool, value ? "true" : "false", WordStart()));
  }
  bool number_integer(number_integer_t value) {
    return Place(Node::Scalar(Node::Kind::kInteger, std::to_string(value), WordStart()));
  }
  bool number_unsigned(number_unsigned_t value) {
    return Place(Node::Scalar(Node::Kind::kInteger, std::to_string(value), WordStart()));
  }
  bool number_float(number_float_t /*value*/, const string_t& text) {
    return Place(Node::Scalar(PlainScalarKind(text), text, WordStart()));
  }
  bool string(string_t& value) {
    return Place(Node::Scalar(Node::Kind::kString, value, StringStart()));
  }
  bool binary(binary_t& /*value*/) { return false; }
  bool start_object(size_t /*size*/) { return Open(Node::Map(BraceStart())); }
  bool end_object() { return Close(); }
  bool start_array(size_t /*size*/) { return Open(Node::List(BraceStart())); }
  bool end_array() { return Close(); }

  bool key(string_t& value) {
    OpenNode& parent = open_.back();
    parent.key = value;
    parent.key_position = StringStart();
    if (!parent.keys.insert(value).second) {
      problems_.push_back({.path = value,
                           .line = parent.key_position.line,
                           .column = parent.key_position.column,
                           .message = "this key appears twice; remove one of them"});
      parent.key = {};
      parent.is_duplicate = true;
    }
    return true;
  }

  bool parse_error(size_t offset, const std::string& /*token*/,
                   const nlohmann::json::exception& e) {
    std::string message = e.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    const size_t start = message.find("] ");
    if (start != std::string::npos) message.erase(0, start + 2);
    return Refuse(lines_.At(offset > 0 ? offset - 1 : 0), "this is not JSON: " + message);
  }

  std::optional<Node> TakeRoot() { return std::move(root_); }
  std::vector<Problem> TakeProblems() { return std::move(problems_); }

 private:
  struct OpenNode {
    Node node;
    std::string key{};
    Position key_position{};
    bool is_duplicate = false;
    std::set<std::string> keys{};
  };

  size_t Offset() const { return static_cast<size_t>(*place_ - text_.data()); }

  Position BraceStart() { return place_ == nullptr ? Position() : lines_.At(Offset() - 1); }

  // The parser stands behind a number's or word's last character, or one further.
  Position WordStart() {
    if (place_ == nullptr) return {};
    const auto in_word = [&](size_t i) {
      return std::string_view(" \t\r\n,:[]{}\"").find(text_[i]) == std::string_view::npos;
    };
    size_t at = Offset();
    while (at > 0 && !in_word(at - 1)) --at;
    while (at > 0 && in_word(at - 1)) --at;
    return lines_.At(at);
  }

  // The parser stands behind a string's closing quote.
  Position StringStart() {
    if (place_ == nullptr) return {};
    size_t at = Offset() - 1;
    while (at > 0) {
      --at;
      if (text_[at] != '"') continue;
      size_t backslashes = 0;
      while (backslashes < at && text_[at - 1 - backslashes] == '\\') ++backslashes;
      if (backslashes % 2 == 0) break;
    }
    return lines_.At(at);
  }

  bool Refuse(Position position, std::string message) {
    problems_.push_back(
        {.line = position.line, .column = position.column, .message = std::move(message)});
    return false;
  }

  bool Open(Node node) {
    if (open_.size() >= static_cast<size_t>(kMaxDepth)) {
      return Refuse(node.position(),
                    "nested more than " + std::to_string(kMaxDepth) + " levels deep");
    }
    open_.push_back({.node = std::move(node)});
    return true;
  }

  bool Close() {
    Node node = std::move(open_.back().node);
    open_.pop_back();
    return Place(std::move(node));
  }

  bool Place(Node node) {
    if (++nodes_ > kMaxNodes) return Refuse(node.position(), "the document has too many values");
    if (open_.empty()) {
      root_ = std::move(node);
      return true;
    }
    OpenNode& parent = open_.back();
    if (parent.node.IsList()) {
      parent.node.Append(std::move(node));
    } else if (parent.is_duplicate) {
      parent.is_duplicate = false;
    } else {
      parent.node.Add(std::move(parent.key), std::move(node));
      parent.node.members().back().position = parent.key_position;
    }
    return true;
  }

  std::string_view text_;
  LineCounter lines_;
  const char* const* place_;
  std::vector<OpenNode> open_;
  std::optional<Node> root_;
  int nodes_ = 0;
  std::vector<Problem> problems_;
};

}  // namespace

Document ReadJson(std::string_view text, Places places) {
  Document document;
  if (places == Places::kTold) {
    if (std::optional<Problem> problem = CheckText(text)) {
      document.problems.push_back(*std::move(problem));
      return document;
    }
  }
  const char* place = text.data();
  JsonTree builder(text, places == Places::kTold ? &place : nullptr);
  // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): `end` ends it
  const TrackingIterator begin(text.data(), &place);
  const TrackingIterator end(text.data() + text.size(), &place);
  nlohmann::json::sax_parse(begin, end, &builder);
  document.problems = builder.TakeProblems();
  if (document.problems.empty()) document.root = builder.TakeRoot();
  return document;
}

}  // namespace lockstep::core
