#include "core/failure/peer_loss.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>

#include "core/exit_codes.h"

namespace lockstep::core {
namespace {

constexpr auto kSentences = std::to_array<std::string_view>({
    "most likely indicates that another task died",  // JAX, then SIGABRT
    "UnavailableError",                              // TensorFlow's strategies
    "HorovodInternalError",                          // Horovod
    "peer process has unexpectedly disconnected",    // Open MPI, before MPI_Abort(14)
    "] Connection closed by peer [",                 // Gloo, in torch and JAX
    "] Read error [",                                // likewise, where the peer had not read all
    "remote process exiting prematurely",            // NCCL: ncclRemoteError
    "has lost communication with a remote daemon",   // Open MPI's mpirun
    "assert (!closed) failed",                       // that of MPICH and Intel
    kDaemonExited,                                   // mpirun's
});

}  // namespace

bool IsNeverAReaction(const Failure& failure) {
  static constexpr std::array kSignals = {SIGKILL, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
  return std::ranges::find(kSignals, failure.signal) != kSignals.end();
}

PeerLoss LossOf(const Failure& failure) {
  if (failure.exit_code == kExitPeerLost) return PeerLoss::kExitCode;
  if (IsNeverAReaction(failure) || failure.cause == Cause::kHang) return PeerLoss::kNone;
  const bool said = std::ranges::any_of(kSentences, [&](std::string_view sentence) {
    return failure.stderr_tail.find(sentence) != std::string::npos;
  });
  return said ? PeerLoss::kLastWords : PeerLoss::kNone;
}

}  // namespace lockstep::core
