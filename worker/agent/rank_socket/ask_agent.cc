#include "worker/agent/rank_socket/ask_agent.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/file.h"
#include "base/unique_fd.h"
#include "worker/agent/rank_socket/progress_message.h"

namespace lockstep::agent {
namespace {

Result<std::string> ReadLine(int fd) {
  std::string line;
  std::array<char, 4096> buffer;
  while (line.find('\n') == std::string::npos) {
    if (line.size() > kMaxProgressLine) return Error::TooLarge("its answer is too long");
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error::Unavailable("the agent gives no answer");
    if (got == 0) return Error::Unavailable("the agent closed the connection");
    line.append(buffer.data(), static_cast<size_t>(got));
  }
  return line.substr(0, line.find('\n'));
}

}  // namespace

Result<Json> AskAgent(const std::string& socket_path, const Json& question, Duration patience) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof address.sun_path) {
    return Error::Invalid(socket_path + " is too long a path");
  }
  std::ranges::copy(socket_path, address.sun_path);
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{duration_cast<std::chrono::seconds>(patience).count(), 0};
  if (!fd.valid() || setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return ErrnoError("no agent can be asked at " + socket_path, errno);
  }
  const Status asked = WriteAll(fd.get(), DumpJson(question) + "\n", socket_path);
  if (!asked.ok()) return asked.error();
  Result<std::string> line = ReadLine(fd.get());
  if (!line.ok()) return line.error();
  Json answer = ParseJson(*line);
  if (!answer.is_object()) return Error::Unavailable("no answer of an agent");
  return answer;
}

}  // namespace lockstep::agent
