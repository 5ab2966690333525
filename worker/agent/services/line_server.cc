#include "worker/agent/services/line_server.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

namespace lockstep::agent {

namespace {

constexpr size_t kReadAtOnce = size_t{64} << 10;

}  // namespace

LineServer::LineServer(EventLoop* loop, Options options, Handlers handlers, LogFn log)
    : loop_(loop),
      options_(std::move(options)),
      handlers_(std::move(handlers)),
      log_(std::move(log), 10, seconds(10)),
      acceptor_(loop) {}

LineServer::~LineServer() {
  for (const auto& [id, client] : clients_) loop_->Unwatch(client.fd.get());
}

Status LineServer::Start(UniqueFd listener) {
  return acceptor_.Start(
      std::move(listener),
      {.on_accept = [this](UniqueFd client, const Endpoint&) { OnAccept(std::move(client)); }});
}

void LineServer::OnAccept(UniqueFd fd) {
  if (handlers_.admit && !handlers_.admit(fd.get())) {
    log_.Write(loop_->now(), options_.what + " was refused: another user opened it");
    return;
  }
  const bool full = clients_.size() >= options_.max_clients;
  if (full && (!handlers_.make_room || !handlers_.make_room())) {
    log_.Write(loop_->now(), options_.what + " was refused: " +
                                 std::to_string(options_.max_clients) + " are open");
    return;
  }
  ClientId id = ++last_client_;
  Status watched =
      loop_->Watch(fd.get(), EPOLLIN, [this, id](uint32_t events) { OnReady(id, events); });
  if (!watched.ok()) return;
  clients_.try_emplace(id, options_.max_line - 1).first->second.fd = std::move(fd);
  if (handlers_.on_open) handlers_.on_open(id);
}

void LineServer::OnReady(ClientId id, uint32_t events) {
  auto it = clients_.find(id);
  if (it == clients_.end()) return;
  if ((events & EPOLLOUT) != 0 && !Flush(id, it->second)) return;
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) Read(id, it->second);
}

bool LineServer::Read(ClientId id, Client& client) {
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
    const Status taken = handlers_.on_line(id, *line);
    if (!clients_.contains(id)) return false;
    if (!taken.ok()) {
      Drop(id, taken.error().message);
      return false;
    }
  }
  if (client.lines.overflow()) {
    Drop(id, "a line over " + std::to_string(options_.max_line / 1024) + " KiB");
    return false;
  }
  return true;
}

void LineServer::ReadNow() {
  std::vector<ClientId> ids;
  for (const auto& [id, client] : clients_) ids.push_back(id);
  for (ClientId id : ids) ReadNow(id);
}

void LineServer::ReadNow(ClientId client) { OnReady(client, EPOLLIN); }

void LineServer::Answer(ClientId id, std::string_view bytes) {
  auto it = clients_.find(id);
  if (it == clients_.end()) return;
  it->second.unsent += bytes;
  if (it->second.unsent.size() > options_.max_unread) {
    Drop(id, "it does not read its answers");
    return;
  }
  Flush(id, it->second);
}

bool LineServer::Flush(ClientId id, Client& client) {
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

void LineServer::Drop(ClientId id, const std::string& reason) {
  auto it = clients_.find(id);
  if (it == clients_.end()) return;
  if (!reason.empty()) log_.Write(loop_->now(), options_.what + " was closed: " + reason);
  loop_->Unwatch(it->second.fd.get());
  clients_.erase(it);
  if (handlers_.on_close) handlers_.on_close(id);
}

}  // namespace lockstep::agent
