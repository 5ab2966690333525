// The gang's framing: after eight bytes that name the protocol and its version, each message is a
// length of four bytes, big-endian, and that many bytes. Pure.
//
//   FrameSplitter splitter(kMaxFrame);
//   splitter.Feed(bytes);
//   while (std::optional<std::string_view> frame = splitter.Next()) ...
//   if (splitter.failed()) ...   // a length of 0, or above the limit: the stream is lost
#ifndef LOCKSTEP_WORKER_AGENT_GANG_FRAME_H_
#define LOCKSTEP_WORKER_AGENT_GANG_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::agent {

// Sent once by the client, first of all after the handshake; the last byte is the version.
inline constexpr std::string_view kFrameMagic{"LKSTEP\x00\x01", 8};
inline constexpr size_t kFrameHeader = 4;

// What the first bytes of a decrypted stream say it is.
enum class Greeting : uint8_t {
  kNeedMore,
  kFrames,
  kOtherVersion,  // the magic with another version
  kOther,         // HTTP, if anything
};
Greeting ClassifyGreeting(std::string_view bytes);

// `body` must have 1 to 2^32 - 1 bytes.
std::string EncodeFrame(std::string_view body);

class FrameSplitter {
 public:
  explicit FrameSplitter(size_t max_body) : max_body_(max_body) {}

  void Feed(std::string_view bytes);
  // The next whole frame's body, valid until the next call of Feed or Next.
  std::optional<std::string_view> Next();

  bool failed() const { return failed_; }
  // The length that failed it.
  uint32_t announced() const { return announced_; }

 private:
  std::string buffer_;
  size_t used_ = 0;
  size_t max_body_;
  uint32_t announced_ = 0;
  bool failed_ = false;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_GANG_FRAME_H_
