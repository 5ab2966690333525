#include "base/net/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/file.h"

namespace lockstep {
namespace {

Result<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Error::Invalid("the socket's path " + path + " is longer than 107 bytes");
  }
  std::ranges::copy(path, address.sun_path);
  return address;
}

Result<std::string> ReadLine(int fd, size_t max, const std::string& who) {
  std::string line;
  std::array<char, 4096> buffer;
  while (line.find('\n') == std::string::npos) {
    if (line.size() > max) return Error::TooLarge(who + " answers too much");
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error::Unavailable(who + " gives no answer");
    if (got == 0) return Error::Unavailable(who + " closed the connection");
    line.append(buffer.data(), static_cast<size_t>(got));
  }
  return line.substr(0, line.find('\n'));
}

}  // namespace

Result<UniqueFd> ListenUnix(const std::string& path) {
  const Result<sockaddr_un> address = AddressOf(path);
  if (!address.ok()) return address.error();
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoError("socket", errno);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    return ErrnoError("bind " + path, errno);
  }
  if (chmod(path.c_str(), 0600) != 0 || listen(fd.get(), 128) != 0) {
    return ErrnoError("listen " + path, errno);
  }
  return fd;
}

Result<Json> AskUnix(const std::string& path, const Json& question, Duration patience,
                     size_t max_answer, const std::string& who) {
  const Result<sockaddr_un> address = AddressOf(path);
  if (!address.ok()) return address.error();
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{duration_cast<std::chrono::seconds>(patience).count(), 0};
  if (!fd.valid() || setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    return ErrnoError(who + " cannot be asked at " + path, errno);
  }
  const Status asked = WriteAll(fd.get(), DumpJson(question) + "\n", path);
  if (!asked.ok()) return asked.error();
  Result<std::string> line = ReadLine(fd.get(), max_answer, who);
  if (!line.ok()) return line.error();
  Json answer = ParseJson(*line);
  if (!answer.is_object()) return Error::Unavailable(who + " gives an unusable answer");
  return answer;
}

}  // namespace lockstep
