#include "base/read_until.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace lockstep {

std::string ReadUntil(int fd, Time until, size_t limit, bool* ended) {
  std::string text;
  std::array<char, 4096> buffer;
  *ended = false;
  while (text.size() < limit) {
    const auto left = (until - BootTime()) / milliseconds(1);
    if (left <= 0) break;
    pollfd wait{fd, POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(left)) <= 0) continue;
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    *ended = got <= 0;
    if (*ended) break;
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return text;
}

}  // namespace lockstep
