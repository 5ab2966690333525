#include "worker/agent/rank_socket/rank_socket.h"

#include <unistd.h>

#include <utility>

#include "base/net/unix_socket.h"

namespace lockstep::agent {

Result<std::unique_ptr<RankSocket>> RankSocket::Listen(EventLoop* loop, const std::string& path,
                                                       Owner* owner, LogFn log) {
  std::unique_ptr<RankSocket> server(new RankSocket(loop, path, owner, std::move(log)));
  // Processes may run as another user than the agent only in images that share one; its mode keeps
  // everybody else of the machine out.
  Result<UniqueFd> fd = ListenUnix(path);
  if (!fd.ok()) return fd.error();
  const Status started = server->lines_.Start(std::move(*fd));
  if (!started.ok()) return started.error();
  return server;
}

RankSocket::RankSocket(EventLoop* loop, std::string path, Owner* owner, LogFn log)
    : path_(std::move(path)),
      owner_(owner),
      lines_(loop,
             {.what = "a progress connection",
              .max_clients = kMaxClients,
              .max_line = kMaxProgressLine,
              .max_unread = kMaxUnread},
             {.on_line = [this](ClientId client,
                                std::string_view line) { return OnLine(client, line); },
              .on_close = [this](ClientId client) { owner_->OnClosed(client); }},
             std::move(log)) {}

RankSocket::~RankSocket() {
  if (lines_.started()) unlink(path_.c_str());
}

Status RankSocket::OnLine(ClientId client, std::string_view line) {
  Result<ProgressMessage> message = ParseProgressMessage(line);
  if (!message.ok()) return message.error();
  owner_->OnProgress(client, *message);
  return {};
}

}  // namespace lockstep::agent
