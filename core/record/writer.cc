#include "core/record/writer.h"

#include <array>
#include <charconv>

#include "base/text/duration.h"
#include "core/failure/signals.h"
#include "core/text/text.h"

namespace lockstep::core {

Node NumberNode(double value) {
  std::array<char, 32> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return Node::Scalar(Node::Kind::kFloat, {buffer.data(), end});
}

Node TimeNode(WallTime value) {
  const bool whole = value == std::chrono::floor<seconds>(value);
  return Node::String(whole ? FormatWallTime(value) : FormatMicroTime(value));
}

Node QuantityNode(const Quantity& value) {
  std::string text = value.ToString();
  const Node::Kind kind = PlainScalarKind(text);
  return Node::Scalar(kind, std::move(text));
}

Node DurationNode(Duration value) { return Node::String(FormatDuration(value)); }

Node SignalNode(int signal, SignalsAs form) {
  return form == SignalsAs::kNumbers ? Node::Integer(signal) : Node::String(SignalName(signal));
}

std::string CutText(const std::string& text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0U) == 0x80U) --bytes;
  return text.substr(0, bytes);
}

}  // namespace lockstep::core
