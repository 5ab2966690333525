#include "worker/trainer/link/agent_link.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "base/text/json.h"

namespace lockstep::trainer {

namespace {

constexpr Duration kReconnect = seconds(1);

// One connection for one question.
class Question {
 public:
  Question(const std::string& path, Time deadline)
      : path_(path), deadline_(deadline), fd_(ConnectToAgent(path, 0)) {}

  Result<std::string> Ask(const std::string& line) {
    if (!fd_.valid()) return Unavailable();
    for (size_t sent = 0; sent < line.size();) {
      Status ready = Wait(POLLOUT);
      if (!ready.ok()) return ready.error();
      const ssize_t n =
          send(fd_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno != EAGAIN && errno != EINTR) return Unavailable();
      if (n > 0) sent += static_cast<size_t>(n);
    }
    std::string answer;
    while (answer.find('\n') == std::string::npos) {
      Status ready = Wait(POLLIN);
      if (!ready.ok()) return ready.error();
      char part[4096];
      const ssize_t n = recv(fd_.get(), part, sizeof part, MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (n <= 0) return Unavailable();
      answer.append(part, static_cast<size_t>(n));
      if (answer.size() > kMaxAgentLine)
        return Error::Invalid("the agent's answer is not a line of JSON");
    }
    return answer.substr(0, answer.find('\n'));
  }

 private:
  Error Unavailable() const {
    return Error::Unavailable("cannot ask the agent at " + path_ + ": " +
                              (errno != 0 ? std::strerror(errno) : "it closed the connection"));
  }

  Status Wait(short events) {
    const Duration left = deadline_ - BootTime();
    const auto patience = duration_cast<milliseconds>(left).count();
    pollfd entry{fd_.get(), events, 0};
    if (patience > 0 && poll(&entry, 1, static_cast<int>(patience)) != 0) return {};
    return Error::Timeout("the agent at " + path_ + " gave no answer in time");
  }

  const std::string& path_;
  const Time deadline_;
  UniqueFd fd_;
};

}  // namespace

UniqueFd ConnectToAgent(const std::string& path, int flags) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return {};
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  if (!fd.valid()) return {};
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return fd;
  const int why = errno;
  fd.reset();
  errno = why;
  return {};
}

namespace {

// JSON has no such numbers.
const char* TextOfNotFinite(double value) {
  if (std::isnan(value)) return "NaN";
  return value > 0 ? "Infinity" : "-Infinity";
}

}  // namespace

void TellPlace(const std::string& path, int rank, const std::string& generation,
               const std::string& place) {
  if (path.empty() || generation.empty()) return;
  const UniqueFd socket = ConnectToAgent(path, SOCK_NONBLOCK);
  if (!socket.valid()) return;
  const std::string line =
      DumpJson(Json{{"rank", rank}, {"generation", generation}, {"place", place}}) + "\n";
  [[maybe_unused]] const ssize_t sent =
      send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

AgentLink::AgentLink(std::string socket_path, int rank, std::string generation)
    : path_(std::move(socket_path)), rank_(rank), generation_(std::move(generation)) {}

bool AgentLink::Connected() {
  if (socket_.valid()) return true;
  const Time now = BootTime();
  if (path_.empty() || now < next_connect_) return false;
  next_connect_ = now + kReconnect;
  socket_ = ConnectToAgent(path_, SOCK_NONBLOCK);
  unsent_.clear();
  return socket_.valid();
}

void AgentLink::Report(const std::vector<std::pair<std::string_view, double>>& values) {
  if (!Connected()) return;
  Json message{{"rank", rank_}};
  for (const auto& [name, value] : values) {
    if (!std::isfinite(value)) {
      // Not known, but for the loss, which rules about metrics ask for.
      if (name == "loss") message["loss"] = TextOfNotFinite(value);
      continue;
    }
    const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
    if (whole) {
      message[std::string(name)] = static_cast<int64_t>(value);
    } else {
      message[std::string(name)] = value;
    }
  }
  Flush();
  if (!unsent_.empty() || !socket_.valid()) return;  // the rest of an older line comes first
  unsent_ = DumpJson(message) + "\n";
  const size_t whole = unsent_.size();
  Flush();
  if (unsent_.size() == whole) unsent_.clear();
}

// Sends what it can of unsent_ at once.
void AgentLink::Flush() {
  if (unsent_.empty()) return;
  const ssize_t sent =
      send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) unsent_.erase(0, static_cast<size_t>(sent));
  if (sent >= 0 || errno == EAGAIN || errno == EINTR) return;
  socket_.reset();
  unsent_.clear();
}

Result<std::string> AgentLink::Commit(const std::string& name, Duration timeout, Store store) {
  errno = 0;
  Json request{{"rank", rank_}, {"id", 1}, {"commit", name}};
  if (store == Store::kMemory) request["memory"] = true;
  if (!generation_.empty()) request["generation"] = generation_;
  Question question(path_, BootTime() + timeout);
  Result<std::string> answer = question.Ask(DumpJson(request) + "\n");
  if (!answer.ok()) return answer;
  const Json reply = ParseJson(*answer);
  if (!reply.is_object() || reply.value("id", 0) != 1) {
    return Error::Invalid("the agent answered another question: " + answer->substr(0, 200));
  }
  if (reply.value("ok", false) && reply.contains("final") && reply["final"].is_string()) {
    return reply["final"].get<std::string>();
  }
  return Error::Conflict(reply.value("reason", std::string("the agent gave no reason")));
}

}  // namespace lockstep::trainer
