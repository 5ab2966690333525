// The HTTP parser reads the same requests however the bytes are cut, within its limits.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/http/http_parser.h"

namespace {

using lockstep::HttpParser;

// All that was read, as one text.
std::string Read(const std::string& bytes, size_t step) {
  HttpParser parser;
  std::string seen;
  for (size_t at = 0; at < bytes.size(); at += step) {
    parser.Feed(std::string_view(bytes).substr(at, step));
    while (true) {
      const HttpParser::State state = parser.Parse();
      if (state == HttpParser::State::kNeedMore) break;
      if (state == HttpParser::State::kError) {
        return seen + "!" + std::to_string(parser.error_status());
      }
      const auto request = parser.TakeRequest();
      if (request.body.size() > HttpParser::kMaxBody) std::abort();
      seen += request.method + "|" + request.path + "|" + request.body + "\n";
    }
  }
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  if (Read(bytes, size + 1) != Read(bytes, 1)) std::abort();
  return 0;
}
