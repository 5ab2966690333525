#include <algorithm>

#include "base/text/json.h"
#include "core/text/text.h"

namespace lockstep::core {
namespace {

std::string Quoted(const std::string& text) { return DumpJson(Json(text)); }

bool IsPlainCharacter(char c) { return c >= 0x20 && c < 0x7f; }

// A text that every YAML reader takes for text without quotes.
bool CanStandPlain(const std::string& text) {
  if (PlainScalarKind(text) != Node::Kind::kString || IsYaml11Bool(text)) return false;
  if (text == "y" || text == "Y" || text == "n" || text == "N" || text == "<<") return false;
  if (!std::all_of(text.begin(), text.end(), IsPlainCharacter)) return false;
  if (std::string_view("-?:,[]{}#&*!|>'\"%@`= ").find(text[0]) != std::string_view::npos) {
    // Flags, such as --lr or -m, are common and need no quotes.
    const bool is_flag = text[0] == '-' && text.size() > 1 && text[1] != ' ' && text != "---";
    if (!is_flag) return false;
  }
  if (text.back() == ' ' || text.back() == ':') return false;
  // 12:30 is a number to YAML 1.1.
  const bool sexagesimal = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || c == ':' || c == '.' || c == '-' || c == '+' || c == '_';
  });
  return !sexagesimal && text.find(": ") == std::string::npos &&
         text.find(" #") == std::string::npos && text.find_first_of(",[]{}") == std::string::npos;
}

// 1e-05 is a text to YAML 1.1, and so to Python; 1.0e-05 is a number to all.
std::string WithPoint(std::string number) {
  const size_t exponent = number.find_first_of("eE");
  if (exponent != std::string::npos && number.find('.') == std::string::npos) {
    number.insert(exponent, ".0");
  }
  return number;
}

// A text of several lines that a literal block (|) holds as it is.
bool CanStandAsBlock(const std::string& text) {
  const size_t newline = text.find('\n');
  if (newline == std::string::npos || newline == 0 || newline + 1 == text.size()) return false;
  if (text[0] == ' ' || text.ends_with("\n\n")) return false;
  if (text.find(" \n") != std::string::npos || text.back() == ' ') return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return IsPlainCharacter(c) || c == '\n'; });
}

class YamlWriter {
 public:
  std::string Write(const Node& node) {
    if (node.IsScalar() || node.IsEmpty()) {
      text_ += Scalar(node) + "\n";
    } else {
      Block(node, 0);
    }
    return std::move(text_);
  }

 private:
  static std::string Scalar(const Node& node) {
    if (node.IsList()) return "[]";
    if (node.IsMap()) return "{}";
    if (node.IsNull()) return "null";
    if (node.kind() == Node::Kind::kFloat) return WithPoint(node.text());
    if (!node.IsString()) return node.text();
    return CanStandPlain(node.text()) ? node.text() : Quoted(node.text());
  }

  // Writes a value behind "key:" or "-": a scalar on the same line, a list or mapping on the next.
  void Value(const Node& node, int indent) {
    if (node.IsScalar() || node.IsEmpty()) {
      if (node.IsString() && CanStandAsBlock(node.text())) {
        Literal(node.text(), indent);
      } else {
        text_ += " " + Scalar(node) + "\n";
      }
      return;
    }
    text_ += "\n";
    Block(node, indent);
  }

  void Literal(const std::string& text, int indent) {
    const bool ends_in_newline = text.back() == '\n';
    text_ += ends_in_newline ? " |\n" : " |-\n";
    size_t start = 0;
    while (start < text.size()) {
      size_t end = text.find('\n', start);
      if (end == std::string::npos) end = text.size();
      if (end > start) Indent(indent);
      text_ += text.substr(start, end - start) + "\n";
      start = end + 1;
    }
  }

  void Block(const Node& node, int indent) {
    if (node.IsList()) {
      for (const Node& item : node.items()) {
        Indent(indent);
        text_ += "-";
        Item(item, indent);
      }
      return;
    }
    for (const NodeMember& member : node.members()) {
      Indent(indent);
      WriteMember(member, indent);
    }
  }

  void WriteMember(const NodeMember& member, int indent) {
    text_ += (CanStandPlain(member.key) ? member.key : Quoted(member.key)) + ":";
    Value(member.value, member.value.IsList() ? indent : indent + 2);
  }

  // The first member of a mapping stands on the line of the dash.
  void Item(const Node& item, int indent) {
    if (!item.IsMap() || item.IsEmpty()) {
      Value(item, indent + 2);
      return;
    }
    bool first = true;
    for (const NodeMember& member : item.members()) {
      if (first) {
        text_ += " ";
      } else {
        Indent(indent + 2);
      }
      first = false;
      WriteMember(member, indent + 2);
    }
  }

  void Indent(int indent) { text_.append(static_cast<size_t>(indent), ' '); }

  std::string text_;
};

// Most texts, and all of our own names, need no escapes.
void AppendQuoted(const std::string& value, std::string& text) {
  const bool plain = std::all_of(value.begin(), value.end(), [](char c) {
    return IsPlainCharacter(c) && c != '"' && c != '\\';
  });
  if (!plain) {
    text += Quoted(value);
    return;
  }
  text.append(1, '"').append(value).append(1, '"');
}

void AppendJson(const Node& node, std::string& text) {
  switch (node.kind()) {
    case Node::Kind::kNull:
      text += "null";
      return;
    case Node::Kind::kBool:
    case Node::Kind::kInteger:
    case Node::Kind::kFloat:
      text += node.text();
      return;
    case Node::Kind::kString:
      AppendQuoted(node.text(), text);
      return;
    case Node::Kind::kList: {
      text += '[';
      const char* separator = "";
      for (const Node& item : node.items()) {
        text += separator;
        AppendJson(item, text);
        separator = ",";
      }
      text += ']';
      return;
    }
    case Node::Kind::kMap: {
      text += '{';
      const char* separator = "";
      for (const NodeMember& member : node.members()) {
        text += separator;
        AppendQuoted(member.key, text);
        text += ':';
        AppendJson(member.value, text);
        separator = ",";
      }
      text += '}';
      return;
    }
  }
}

}  // namespace

std::string WriteYaml(const Node& node) { return YamlWriter().Write(node); }

std::string WriteJson(const Node& node) {
  std::string text;
  AppendJson(node, text);
  return text;
}

}  // namespace lockstep::core
