// The operator reads the same answers of agents however their bytes come in, within its limits, and
// never more than there is.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/http/http_answer.h"
#include "core/gang/status/status_api.h"

namespace {

using lockstep::HttpAnswer;
using lockstep::ParseHttpAnswer;

// All that was read, as one text; parsed anew after every `step` bytes.
std::string Read(const std::string& bytes, size_t step) {
  std::string seen;
  std::string buffer;
  for (size_t at = 0; at < bytes.size(); at += step) {
    buffer += bytes.substr(at, step);
    while (true) {
      size_t used = 0;
      bool keep_alive = false;
      const auto answer =
          ParseHttpAnswer(buffer, lockstep::core::kMaxStatusBody, &used, &keep_alive);
      if (!answer.ok()) return seen + "!";
      if (!answer->has_value()) break;
      const HttpAnswer& got = **answer;
      if (got.body.size() > lockstep::core::kMaxStatusBody) std::abort();
      if (used == 0 || used > buffer.size()) std::abort();
      seen += std::to_string(got.status) + "|" + got.body + "\n";
      if (!keep_alive) return seen;
      buffer.erase(0, used);
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
