// Messages between the ranks and the store at rank 0. On the wire each message is a frame: the
// length of the body (4 bytes), then the body: type (1), rank (4), first (8), second (8), the
// length of the key (2), the key, and the value up to the end. All numbers are big-endian. Pure.
//
//   MessageReader reader(kGreetingLimit);
//   reader.Feed(bytes);
//   for (;;) {
//     Result<std::optional<Message>> next = reader.Next();
//     if (!next.ok()) ...      // the stream is lost: close it
//     if (!*next) break;       // not all of it is here yet
//   }
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_MESSAGE_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep::collectives {

enum class MessageType : uint8_t {
  // From a rank:
  kHello = 1,  // rank; first: world; key: kMagic; value: identity
  kSet,        // key, value
  kGet,        // key: answered by kValue once it is set
  kBeat,       // first: the last operation issued; second: the last finished
  kWho,        // who is missing?
  kLate,       // first: number; rank: the peer of a send or receive, else -1; value: in words
  kFail,       // first: ErrorKind; rank: who is to blame, or -1; value: in words
  kBye,        // leaves on purpose; from the store too, when rank 0 leaves
  // From the store:
  kWelcome,
  kRefused,  // value: why
  kReady,    // all ranks are here
  kSetDone,  // key; first: 0 done, 1 there was one, 2 too large; value: in words
  kValue,    // key, value
  kPulse,    // answers kBeat
  kMissing,  // value: the ranks that are not here
  kFailed,   // as kFail, to all: the end
};

struct Message {
  MessageType type = MessageType::kHello;
  int32_t rank = -1;
  uint64_t first = 0;
  uint64_t second = 0;
  std::string key = {};
  std::string value = {};

  bool operator==(const Message&) const = default;
};

// The last byte is the protocol's version.
inline constexpr std::string_view kMagic{"LKSTEP-COLL\x01", 12};

inline constexpr size_t kMaxKey = 1024;
inline constexpr size_t kMaxValue = 64 << 10;
// Bounds of a body: before a peer has said who it is, and after.
inline constexpr size_t kGreetingLimit = 1024;
inline constexpr size_t kMessageLimit = kMaxKey + kMaxValue + 64;

// `key` has at most kMaxKey bytes, `value` at most kMaxValue.
std::string Encode(const Message& message);

// An error's kind as a message carries it; kInternal for a number that we don't know.
ErrorKind ErrorKindOf(uint64_t number);

class MessageReader {
 public:
  explicit MessageReader(size_t limit) : limit_(limit) {}

  // From now on bodies of up to `limit` bytes.
  void set_limit(size_t limit) { limit_ = limit; }
  void Feed(std::string_view bytes);
  // The next whole message; nullopt: not all of it is here yet. Once Invalid, always Invalid.
  Result<std::optional<Message>> Next();

 private:
  size_t limit_;
  std::string buffer_;
  size_t used_ = 0;
  bool failed_ = false;
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_MESSAGE_H_
