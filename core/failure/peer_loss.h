// Whether a process that failed says itself that it lost a peer: then another's end came first,
// though it may be noticed later.
#ifndef LOCKSTEP_CORE_FAILURE_PEER_LOSS_H_
#define LOCKSTEP_CORE_FAILURE_PEER_LOSS_H_

#include <string_view>

#include "core/failure/failure.h"

namespace lockstep::core {

// What an agent says of a launcher's daemon that exited with another code than 0. It may do so
// because the launcher ends, which is noticed on another machine.
inline constexpr std::string_view kDaemonExited = "the launcher's daemon exited with code ";

enum class PeerLoss : uint8_t {
  kNone,
  kLastWords,  // its last words (last_words.h) name it as a framework, a language or the kernel
               // does; a program may print that for reasons of its own
  kExitCode,   // exit code 75, which says nothing else
};

// Never of SIGKILL and faults (SIGSEGV, SIGBUS, SIGILL, SIGFPE), which no peer's end leads to.
PeerLoss LossOf(const Failure& failure);

// Whether the last words in `text` are of a lost peer.
bool NamesLostPeer(std::string_view text);

// Such a signal: it came from outside, or from a fault of the process's own.
bool IsNeverAReaction(const Failure& failure);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_FAILURE_PEER_LOSS_H_
