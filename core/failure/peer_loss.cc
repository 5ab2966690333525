#include "core/failure/peer_loss.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>

#include "core/exit_codes.h"
#include "core/failure/last_words.h"

namespace lockstep::core {
namespace {

enum class Where : uint8_t {
  kAnywhere,   // in the last words
  kException,  // a line of theirs that is, or begins with, this exception's name
  kWholeLine,  // a line of theirs that is this, and says nothing more
};

struct Words {
  std::string_view text;
  Where where = Where::kAnywhere;
};

// Everything that says: I lost a peer. Seen of each framework's survivors.
constexpr auto kWords = std::to_array<Words>({
    {"most likely indicates that another task died"},        // JAX, then SIGABRT
    {"UnavailableError"},                                    // TensorFlow's strategies
    {"HorovodInternalError"},                                // Horovod
    {"] Connection closed by peer ["},                       // Gloo, in torch and JAX
    {"] Read error ["},                                      // likewise: the peer had not read all
    {"Did the remote server shutdown or crash?"},            // torch's TCPStore
    {"remote process exiting prematurely"},                  // NCCL: ncclRemoteError
    {"remote process exited or there was a network error"},  // likewise
    {"Connection closed by remote peer"},                    // NCCL's sockets
    {"Connection reset by remote peer"},                     // UCX
    {"peer process has unexpectedly disconnected"},          // Open MPI, before MPI_Abort(14)
    {"has lost communication with a remote daemon"},         // Open MPI's mpirun
    {"assert (!closed) failed"},                             // that of MPICH and Intel
    {"MPI_ERR_PROC_FAILED"},                                 // MPI with fault tolerance
    {"MPI_ERR_REVOKED"},                                     // likewise
    {kDaemonExited},                                         // mpirun's
    // The kernel's own, in any language: ECONNRESET, EPIPE, ECONNREFUSED, ECONNABORTED, ENOTCONN.
    {"onnection reset by peer"},
    {"roken pipe"},
    {"onnection refused"},
    {"oftware caused connection abort"},
    {"ransport endpoint is not connected"},
    // Python's own. Its other EOFErrors have a message: a file that is cut off is no peer.
    {"ConnectionError", Where::kException},
    {"ConnectionResetError", Where::kException},
    {"ConnectionAbortedError", Where::kException},
    {"ConnectionRefusedError", Where::kException},
    {"BrokenPipeError", Where::kException},
    {"asyncio.exceptions.IncompleteReadError", Where::kException},
    {"EOFError", Where::kWholeLine},  // of multiprocessing's connections
});

// Without what a launcher puts before it: "[rank3]: ".
std::string_view WithoutPrefix(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  const size_t end = line.starts_with('[') ? line.find("]: ") : std::string_view::npos;
  return end == std::string_view::npos ? line : line.substr(end + 3);
}

bool HasLine(std::string_view text, const Words& words) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = WithoutPrefix(text.substr(0, end));
    if (line == words.text) return true;
    if (words.where == Where::kException && line.starts_with(words.text) &&
        line.substr(words.text.size()).starts_with(':')) {
      return true;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

bool Say(std::string_view text, const Words& words) {
  return words.where == Where::kAnywhere ? text.find(words.text) != std::string_view::npos
                                         : HasLine(text, words);
}

}  // namespace

bool IsNeverAReaction(const Failure& failure) {
  static constexpr std::array kSignals = {SIGKILL, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
  return std::ranges::find(kSignals, failure.signal) != kSignals.end();
}

bool NamesLostPeer(std::string_view text) {
  const std::string_view last_words = LastWordsIn(text);
  return std::ranges::any_of(kWords, [&](const Words& words) { return Say(last_words, words); });
}

PeerLoss LossOf(const Failure& failure) {
  if (failure.exit_code == kExitPeerLost) return PeerLoss::kExitCode;
  if (IsNeverAReaction(failure) || failure.cause == Cause::kHang) return PeerLoss::kNone;
  return NamesLostPeer(failure.stderr_tail) ? PeerLoss::kLastWords : PeerLoss::kNone;
}

}  // namespace lockstep::core
