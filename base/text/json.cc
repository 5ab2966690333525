#include "base/text/json.h"

#include <array>
#include <cstddef>
#include <cstdio>

namespace lockstep {
namespace {

// Writes DEL and U+0080 to U+009F as escapes: only texts hold them.
std::string Escaped(std::string json) {
  for (size_t at = 0; (at = json.find_first_of("\x7f\xC2", at)) != std::string::npos; ++at) {
    const size_t length = json[at] == '\x7f' ? 1 : 2;  // dump() left whole characters alone
    const auto last = static_cast<unsigned char>(json[at + length - 1]);
    if (last >= 0xA0) continue;
    std::array<char, 8> escape{};
    std::snprintf(escape.data(), escape.size(), "\\u%04x", last);
    json.replace(at, length, escape.data());
  }
  return json;
}

}  // namespace

Json ParseJson(std::string_view text) {
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

OrderedJson ParseOrderedJson(std::string_view text) {
  return OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string DumpJson(const Json& json, int indent) {
  return Escaped(json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace));
}

std::string DumpJson(const OrderedJson& json, int indent) {
  return Escaped(
      json.dump(indent, ' ', /*ensure_ascii=*/false, OrderedJson::error_handler_t::replace));
}

}  // namespace lockstep
