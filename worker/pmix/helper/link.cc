#include "worker/pmix/helper/link.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace lockstep::pmix {

void Link::Send(const std::vector<Message>& messages) {
  const MutexLock lock(&mutex_);
  for (const Message& message : messages) {
    const std::string packet = Encode(message);
    ssize_t sent = -1;
    do {
      sent = send(fd_, packet.data(), packet.size(), MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) _exit(0);  // nobody is left to be told
  }
}

Result<std::optional<Message>> Link::Receive() const {
  std::array<char, kMaxPacket + 1> packet;
  ssize_t got = -1;
  do {
    got = recv(fd_, packet.data(), packet.size(), 0);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && errno != ECONNRESET) return ErrnoError("recv", errno);
  if (got <= 0) return std::optional<Message>();
  Result<Message> message = Decode({packet.data(), static_cast<size_t>(got)});
  if (!message.ok()) return message.error();
  return std::optional(*std::move(message));
}

}  // namespace lockstep::pmix
