// What an agent and its lockstep-pmix (worker/pmix/helper) say to each other, on a socket pair that
// keeps packets apart: one message is one packet (docs/reference/protocol.md).
//
//   helper                          agent
//   kInitialized                                    it has the library up, and waits
//                                   kBegin          `bytes`: the namespace; its ranks are to come
//   kVariables, for each rank                       `bytes`: NAME=value, each with a '\0' behind it
//   kReady                                          the ranks may start
//   kConnected, kFinalized                          the rank has begun or ended MPI
//   kAbort                                          it called MPI_Abort: `code`, `bytes` its words
//   kFence, in parts                                all its ranks wait in a fence; what they put
//                                   kFence, ...     what those of all machines put; `code` not 0:
//                                                   the fence has failed
//   kProblem                                        `bytes`: why it ends
//
// The end of the one's stream is the other's end.
#ifndef LOCKSTEP_WORKER_PMIX_MESSAGE_H_
#define LOCKSTEP_WORKER_PMIX_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep::pmix {

inline constexpr char kHelperProgram[] = "lockstep-pmix";
inline constexpr int kHelperFd = 3;  // as SpawnRequest::extra_fds hands it down

enum class Kind : uint8_t {
  kInitialized = 1,
  kBegin,
  kVariables,
  kReady,
  kConnected,
  kFinalized,
  kAbort,
  kFence,
  kProblem,
};

struct Message {
  Kind kind = Kind::kInitialized;
  uint32_t local_rank = 0;  // kVariables, kConnected, kFinalized, kAbort
  int32_t code = 0;         // kAbort, kFence
  bool last = true;         // kFence: no part follows
  std::string bytes = {};

  friend bool operator==(const Message&, const Message&) = default;
};

inline constexpr size_t kHeaderBytes = 10;
inline constexpr size_t kMaxBytes = size_t{32} << 10;  // of `bytes`
inline constexpr size_t kMaxPacket = kHeaderBytes + kMaxBytes;

// A kind, three numbers, big-endian, and `bytes`, of which more than kMaxBytes are cut off.
std::string Encode(const Message& message);
Result<Message> Decode(std::string_view packet);

// `data` as kFence: one message at least.
std::vector<Message> FenceParts(std::string_view data);

}  // namespace lockstep::pmix

#endif  // LOCKSTEP_WORKER_PMIX_MESSAGE_H_
