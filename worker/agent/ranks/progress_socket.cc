#include "worker/agent/ranks/progress_socket.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace lockstep::agent {

namespace {

constexpr size_t kReadAtOnce = size_t{64} << 10;

}  // namespace

Result<std::unique_ptr<ProgressSocket>> ProgressSocket::Listen(EventLoop* loop,
                                                               const std::string& path,
                                                               Handler handler, LogFn log) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Error::Invalid("the socket's path " + path + " is longer than 107 bytes");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  std::unique_ptr<ProgressSocket> server(
      new ProgressSocket(loop, path, std::move(handler), std::move(log)));
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
  ProgressSocket* raw = server.get();
  Status started = raw->acceptor_.Start(
      std::move(fd),
      {.on_accept = [raw](UniqueFd client, const Endpoint&) { raw->OnAccept(std::move(client)); }});
  if (!started.ok()) return started.error();
  return server;
}

ProgressSocket::ProgressSocket(EventLoop* loop, std::string path, Handler handler, LogFn log)
    : loop_(loop),
      path_(std::move(path)),
      handler_(std::move(handler)),
      log_(std::move(log), 10, seconds(10)),
      acceptor_(loop) {}

ProgressSocket::~ProgressSocket() {
  for (const auto& [id, client] : clients_) loop_->Unwatch(client.fd.get());
  if (acceptor_.started()) unlink(path_.c_str());
}

void ProgressSocket::OnAccept(UniqueFd fd) {
  if (clients_.size() >= kMaxClients) {
    log_.Write(loop_->now(),
               "a progress connection was refused: " + std::to_string(kMaxClients) + " are open");
    return;
  }
  ClientId id = ++last_client_;
  Status watched =
      loop_->Watch(fd.get(), EPOLLIN, [this, id](uint32_t events) { OnReady(id, events); });
  if (watched.ok()) clients_[id].fd = std::move(fd);
}

void ProgressSocket::OnReady(ClientId id, uint32_t events) {
  auto it = clients_.find(id);
  if (it == clients_.end()) return;
  if ((events & EPOLLOUT) != 0 && !Flush(id, it->second)) return;
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) Read(id, it->second);
}

bool ProgressSocket::Read(ClientId id, Client& client) {
  std::array<char, kReadAtOnce> buffer;
  ssize_t got = read(client.fd.get(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got <= 0) {
    Drop(id, "");
    return false;
  }
  client.lines.Append({buffer.data(), static_cast<size_t>(got)});
  while (const std::optional<std::string_view> line = client.lines.Next()) {
    if (line->empty()) continue;
    Result<ProgressMessage> message = ParseProgressMessage(*line);
    if (!message.ok()) {
      Drop(id, message.error().message);
      return false;
    }
    handler_(id, *message);
    if (!clients_.contains(id)) return false;
  }
  if (client.lines.overflow()) {
    Drop(id, "a line over 64 KiB");
    return false;
  }
  return true;
}

void ProgressSocket::ReadNow() {
  std::vector<ClientId> ids;
  for (const auto& [id, client] : clients_) ids.push_back(id);
  for (ClientId id : ids) OnReady(id, EPOLLIN);
}

void ProgressSocket::Answer(ClientId id, const std::string& line) {
  auto it = clients_.find(id);
  if (it == clients_.end()) return;
  it->second.unsent += line;
  if (it->second.unsent.size() > kMaxUnread) {
    Drop(id, "it reads none of its answers");
    return;
  }
  Flush(id, it->second);
}

bool ProgressSocket::Flush(ClientId id, Client& client) {
  while (!client.unsent.empty()) {
    ssize_t sent = send(client.fd.get(), client.unsent.data(), client.unsent.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) {
      Drop(id, "");
      return false;
    }
    if (sent < 0) break;
    client.unsent.erase(0, static_cast<size_t>(sent));
  }
  loop_->Modify(client.fd.get(), client.unsent.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT);
  return true;
}

void ProgressSocket::Drop(ClientId id, const std::string& reason) {
  auto it = clients_.find(id);
  if (!reason.empty()) {
    log_.Write(loop_->now(), "a progress connection was closed: " + reason);
  }
  loop_->Unwatch(it->second.fd.get());
  clients_.erase(it);
}

}  // namespace lockstep::agent
