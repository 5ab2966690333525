// Messages between ranks and their store come out the same however the bytes are cut; what is no
// message loses the stream for good; and what came out encodes to the bytes that went in.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "worker/trainer/collectives/store/message.h"

namespace {

using lockstep::collectives::kGreetingLimit;
using lockstep::collectives::kMessageLimit;
using lockstep::collectives::Message;
using lockstep::collectives::MessageReader;

struct Read {
  std::vector<Message> messages;
  bool failed = false;

  bool operator==(const Read&) const = default;
};

Read ReadAll(std::string_view bytes, size_t step) {
  MessageReader reader(kGreetingLimit);
  Read read;
  for (size_t at = 0; at < bytes.size(); at += step) {
    reader.Feed(bytes.substr(at, step));
    for (;;) {
      auto next = reader.Next();
      if (read.failed && next.ok()) std::abort();
      if (!next.ok()) read.failed = true;
      if (!next.ok() || !next->has_value()) break;
      read.messages.push_back(**next);
      reader.set_limit(kMessageLimit);
    }
  }
  return read;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Read whole = ReadAll(bytes, size + 1);
  if (whole != ReadAll(bytes, 1) || whole != ReadAll(bytes, 7)) std::abort();
  std::string again;
  for (const Message& message : whole.messages) again += Encode(message);
  if (bytes.substr(0, again.size()) != again) std::abort();
  return 0;
}
