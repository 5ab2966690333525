#include "worker/trainer/link/rejoin.h"

#include <sys/socket.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/thread.h"
#include "worker/trainer/link/agent_link.h"

namespace lockstep::trainer {

Rejoin::Rejoin(const std::string& socket_path, int rank, std::string generation)
    : rank_(rank), generation_(std::move(generation)), socket_(ConnectToAgent(socket_path, 0)) {
  Result<std::thread> thread = StartThread([this] { Run(); });
  if (thread.ok()) {
    thread_ = std::move(*thread);
  } else {
    // Nobody waits for the generation's end: this process ends with it.
    const MutexLock lock(&mutex_);
    over_ = true;
  }
}

Rejoin::~Rejoin() {
  if (socket_.valid()) shutdown(socket_.get(), SHUT_RDWR);
  if (thread_.joinable()) thread_.join();
}

bool Rejoin::ended() const {
  const MutexLock lock(&mutex_);
  return ended_;
}

void Rejoin::Watch(std::function<void()> on_end) {
  const MutexLock lock(&mutex_);
  on_end_ = std::move(on_end);
  if (ended_ && on_end_) on_end_();
}

bool Rejoin::AwaitEnd(Duration patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  const MutexLock lock(&mutex_);
  while (!ended_ && !over_ && std::chrono::steady_clock::now() < until) {
    changed_.wait_until(mutex_, until);
  }
  return ended_;
}

void Rejoin::Run() {
  // Signals go to the training thread.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  bool ended = false;
  if (Send({{"rank", rank_}, {"id", 1}, {"rejoin", generation_}}).ok()) {
    const Result<lockstep::Json> answer = Receive();
    ended = answer.ok() && answer->value("ended", "") == generation_;
  }
  const MutexLock lock(&mutex_);
  ended_ = ended;
  over_ = true;
  changed_.notify_all();
  if (ended_ && on_end_) on_end_();
}

Status Rejoin::SayLeft() { return Send({{"rank", rank_}, {"id", 2}, {"left", generation_}}); }

Result<lockstep::Json> Rejoin::AwaitNext() {
  Result<lockstep::Json> next = Receive();
  if (!next.ok()) return next;
  const bool told = next->contains("generation") && next->contains("environment") &&
                    (*next)["generation"].is_string() && (*next)["environment"].is_object();
  if (!told) return Error::Invalid("the agent reports no next generation: " + DumpJson(*next));
  return next;
}

Status Rejoin::Send(const lockstep::Json& message) const {
  const std::string line = DumpJson(message) + "\n";
  for (size_t sent = 0; socket_.valid() && sent < line.size();) {
    const ssize_t n = send(socket_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError("the agent", errno);
    sent += static_cast<size_t>(n);
  }
  return socket_.valid() ? Status() : Status(Error::Unavailable("there is no agent"));
}

Result<lockstep::Json> Rejoin::Receive() {
  size_t end = received_.find('\n');
  while (end == std::string::npos) {
    char part[4096];
    const ssize_t n = recv(socket_.get(), part, sizeof part, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Error::Unavailable("the agent closed the connection");
    received_.append(part, static_cast<size_t>(n));
    end = received_.find('\n');
    if (end == std::string::npos && received_.size() > kMaxAgentLine) {
      return Error::TooLarge("the agent's answer is not a line of JSON");
    }
  }
  lockstep::Json line = ParseJson(received_.substr(0, end));
  received_.erase(0, end + 1);
  if (!line.is_object()) return Error::Invalid("the agent's answer is not a line of JSON");
  return line;
}

Status ApplyEnvironment(const lockstep::Json& next) {
  for (const auto& [name, value] : next["environment"].items()) {
    if (name.empty() || name.find('=') != std::string::npos) continue;
    int failed = 0;
    if (value.is_null()) {
      failed = unsetenv(name.c_str());
    } else if (value.is_string()) {
      failed = setenv(name.c_str(), value.get_ref<const std::string&>().c_str(), 1);
    }
    if (failed != 0) return ErrnoError("setting " + name, errno);
  }
  return {};
}

}  // namespace lockstep::trainer
