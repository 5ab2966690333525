// Text to a document's tree and back, for YAML and JSON alike. The size, the depth and the number
// of nodes after aliases are expanded have limits, so a hostile file costs little.
#ifndef LOCKSTEP_CORE_TEXT_TEXT_H_
#define LOCKSTEP_CORE_TEXT_TEXT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/node.h"
#include "core/text/problem.h"

namespace lockstep::core {

inline constexpr size_t kMaxDocumentBytes = 1 << 20;
inline constexpr int kMaxDepth = 64;
inline constexpr int kMaxNodes = 100'000;

struct Document {
  std::optional<Node> root;  // absent when there are errors
  std::vector<Problem> problems;
};

// One YAML document of at most kMaxDocumentBytes, with its merge keys (<<) carried out. Duplicate
// keys, a second document and aliases that expand to more than kMaxNodes are errors.
Document ReadYaml(std::string_view text);
// Places: whether nodes and problems know their line and column. Without places, a text of any size
// and the control characters that JSON allows are read.
enum class Places : uint8_t { kTold, kUntold };
Document ReadJson(std::string_view text, Places places = Places::kTold);

// Block style, two spaces. A text is quoted where a reader could take it for something else.
std::string WriteYaml(const Node& node);
// One line.
std::string WriteJson(const Node& node);

// Length of the UTF-8 character at the start of `text`; 0: there is none.
size_t CharacterLength(std::string_view text);

// The first check of both readers: the size, and UTF-8 without control characters.
std::optional<Problem> CheckText(std::string_view text);

// Whether YAML 1.1 or 1.2 would take a plain scalar for something other than text.
Node::Kind PlainScalarKind(std::string_view text);
// The value of a plain integer scalar in YAML 1.1, and so in kubectl: 0644 is 420, 0x10 is 16,
// 1_000 is 1000, and 08 is 8. Empty: no integer that fits.
std::optional<int64_t> Yaml11Integer(std::string_view text);
// The value of true, false, or a word that IsYaml11Bool knows.
bool Yaml11Truth(std::string_view text);
// Characters of a UTF-8 text.
size_t CountLetters(std::string_view text);
// Digits as JSON wants them: no +, no leading zero, a digit on both sides of the point.
bool IsJsonNumber(std::string_view text);
// yes, no, on, off: a bool to kubectl, text to others.
bool IsYaml11Bool(std::string_view text);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_TEXT_TEXT_H_
