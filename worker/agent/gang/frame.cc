#include "worker/agent/gang/frame.h"

#include <algorithm>

namespace lockstep::agent {
namespace {

uint32_t ReadLength(std::string_view bytes) {
  uint32_t length = 0;
  for (size_t i = 0; i < kFrameHeader; ++i) {
    length = (length << 8) | static_cast<unsigned char>(bytes[i]);
  }
  return length;
}

}  // namespace

Greeting ClassifyGreeting(std::string_view bytes) {
  const std::string_view name = kFrameMagic.substr(0, kFrameMagic.size() - 1);
  const size_t common = std::min(bytes.size(), name.size());
  if (bytes.substr(0, common) != name.substr(0, common)) return Greeting::kOther;
  if (bytes.size() < kFrameMagic.size()) return Greeting::kNeedMore;
  return bytes[name.size()] == kFrameMagic.back() ? Greeting::kFrames : Greeting::kOtherVersion;
}

std::string EncodeFrame(std::string_view body) {
  std::string frame;
  frame.reserve(kFrameHeader + body.size());
  const auto length = static_cast<uint32_t>(body.size());
  for (int shift = 24; shift >= 0; shift -= 8) {
    frame.push_back(static_cast<char>((length >> shift) & 0xff));
  }
  frame.append(body);
  return frame;
}

void FrameSplitter::Feed(std::string_view bytes) {
  if (failed_) return;
  buffer_.erase(0, used_);
  used_ = 0;
  buffer_.append(bytes);
}

std::optional<std::string_view> FrameSplitter::Next() {
  const std::string_view rest = std::string_view(buffer_).substr(used_);
  if (failed_ || rest.size() < kFrameHeader) return std::nullopt;
  announced_ = ReadLength(rest);
  if (announced_ == 0 || announced_ > max_body_) {
    failed_ = true;
    buffer_.clear();
    used_ = 0;
    return std::nullopt;
  }
  if (rest.size() < kFrameHeader + announced_) return std::nullopt;
  used_ += kFrameHeader + announced_;
  return rest.substr(kFrameHeader, announced_);
}

}  // namespace lockstep::agent
