#include "worker/trainer/link/evidence_signal.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <utility>

#include "base/file.h"
#include "base/thread.h"

namespace lockstep::trainer {
namespace {

constexpr int kSignal = 51;  // the agent and lockstep.py name the same
constexpr uint64_t kAsked = 1;
constexpr uint64_t kEnd = uint64_t{1} << 40;

int wake_fd = -1;  // of the one EvidenceSignal, and of the next

void Wake(uint64_t what) {
  const int saved = errno;
  // It cannot fail but where it has been told already.
  [[maybe_unused]] const ssize_t wrote = write(wake_fd, &what, sizeof what);
  errno = saved;
}

sigset_t TheSignal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, kSignal);
  return signals;
}

}  // namespace

void EvidenceSignal::Block() {
  const sigset_t signals = TheSignal();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

EvidenceSignal::EvidenceSignal(const std::string& socket_path, Record record)
    : record_(std::move(record)) {
  const size_t slash = socket_path.rfind('/');
  if (slash == std::string::npos) return;
  folder_ = socket_path.substr(0, slash) + "/flight";
  const std::string path = socket_path.substr(0, slash) + "/stacks/" + std::to_string(getpid());
  file_.reset(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file_.valid()) return;
  if (wake_fd < 0) wake_fd = eventfd(0, EFD_CLOEXEC);
  // The agent knows by the file's first line that this process still holds it.
  if (wake_fd < 0 || !WriteAll(file_.get(), std::to_string(file_.get()) + "\n", path).ok()) {
    file_.reset();
    return;
  }
  Result<std::thread> thread = StartThread([this] { Run(); });
  if (!thread.ok()) {  // the agent asks another way
    file_.reset();
    unlink(path.c_str());
    return;
  }
  thread_ = std::move(*thread);
  struct sigaction action{};
  action.sa_handler = [](int) { Wake(kAsked); };
  action.sa_flags = SA_RESTART;
  sigaction(kSignal, &action, nullptr);
}

EvidenceSignal::~EvidenceSignal() {
  if (!thread_.joinable()) return;
  Wake(kEnd);
  thread_.join();
}

void EvidenceSignal::Run() {
  const sigset_t signals = TheSignal();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  for (;;) {
    uint64_t told = 0;
    if (read(wake_fd, &told, sizeof told) != sizeof told) {
      if (errno == EINTR) continue;
      return;
    }
    if (told >= kEnd) return;
    const Result<std::string> stands = record_(folder_);
    const std::string line =
        stands.ok() ? "Flight: " + *stands : "no flight recorder: " + stands.error().message;
    [[maybe_unused]] const Status wrote = WriteAll(file_.get(), line + "\n", "stacks");
  }
}

}  // namespace lockstep::trainer
