#include "worker/agent/rank_socket/progress_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep::agent {

Result<std::unique_ptr<ProgressSocket>> ProgressSocket::Listen(EventLoop* loop,
                                                               const std::string& path,
                                                               Handler handler,
                                                               CloseHandler on_close, LogFn log) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Error::Invalid("the socket's path " + path + " is longer than 107 bytes");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  std::unique_ptr<ProgressSocket> server(
      new ProgressSocket(loop, path, std::move(handler), std::move(on_close), std::move(log)));
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoError("socket", errno);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return ErrnoError("bind " + path, errno);
  }
  // Processes may run as another user than the agent only in images that share one; mode 0600
  // keeps everybody else of the machine out.
  if (chmod(path.c_str(), 0600) != 0 || listen(fd.get(), 128) != 0) {
    return ErrnoError("listen " + path, errno);
  }
  Status started = server->lines_.Start(std::move(fd));
  if (!started.ok()) return started.error();
  return server;
}

ProgressSocket::ProgressSocket(EventLoop* loop, std::string path, Handler handler,
                               CloseHandler on_close, LogFn log)
    : path_(std::move(path)),
      handler_(std::move(handler)),
      lines_(loop,
             {.what = "a progress connection",
              .max_clients = kMaxClients,
              .max_line = kMaxProgressLine,
              .max_unread = kMaxUnread},
             {.on_line = [this](ClientId client,
                                std::string_view line) { return OnLine(client, line); },
              .on_close = std::move(on_close)},
             std::move(log)) {}

ProgressSocket::~ProgressSocket() {
  if (lines_.started()) unlink(path_.c_str());
}

Status ProgressSocket::OnLine(ClientId client, std::string_view line) {
  Result<ProgressMessage> message = ParseProgressMessage(line);
  if (!message.ok()) return message.error();
  handler_(client, *message);
  return {};
}

}  // namespace lockstep::agent
