// Whether the last words of a failed process report the loss of a peer. Then the peer ended first,
// even if its end is noticed later.
#ifndef LOCKSTEP_CORE_FAILURE_PEER_LOSS_H_
#define LOCKSTEP_CORE_FAILURE_PEER_LOSS_H_

#include <string_view>

#include "core/failure/failure.h"

namespace lockstep::core {

// The agent's last words for a launcher's daemon that exited with a code other than 0. The daemon
// may exit because its launcher ended, which another machine notices.
inline constexpr std::string_view kDaemonExited = "the launcher's daemon exited with code ";

enum class PeerLoss : uint8_t {
  kNone,
  kLastWords,  // its last words (last_words.h) name it as a framework, a language or the kernel
               // does; a program may print that for reasons of its own
  kExitCode,   // exit code 75, which says nothing else
};

// False for SIGKILL and faults (SIGSEGV, SIGBUS, SIGILL, SIGFPE), because no peer's end causes
// them.
PeerLoss LossOf(const Failure& failure);

// Whether the last words in `text` report a lost peer.
bool NamesLostPeer(std::string_view text);

// Whether no peer's end causes this signal: it came from outside, or from a fault of the process.
bool IsNeverAReaction(const Failure& failure);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_FAILURE_PEER_LOSS_H_
