// The frame splitter gives the same frames however the bytes are cut, within its limit.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "worker/agent/gang/frame.h"

namespace {

using lockstep::agent::FrameSplitter;

constexpr size_t kMaxBody = 1024;

std::vector<std::string> Split(const std::string& bytes, size_t step) {
  FrameSplitter splitter(kMaxBody);
  std::vector<std::string> frames;
  for (size_t at = 0; at < bytes.size(); at += step) {
    splitter.Feed(std::string_view(bytes).substr(at, step));
    while (const auto frame = splitter.Next()) {
      if (frame->empty() || frame->size() > kMaxBody) std::abort();
      frames.emplace_back(*frame);
    }
  }
  return frames;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> whole = Split(bytes, size + 1);
  if (whole != Split(bytes, 1) || whole != Split(bytes, 7)) std::abort();
  std::string again;
  for (const std::string& frame : whole) again += lockstep::agent::EncodeFrame(frame);
  if (bytes.compare(0, again.size(), again) != 0) std::abort();
  lockstep::agent::ClassifyGreeting(bytes);
  return 0;
}
