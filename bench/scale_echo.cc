#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench/scale.h"

namespace lockstep::bench {
namespace {

constexpr size_t kEcho = 64;  // bytes; less than what any message is split at
constexpr int kBacklog = 4096;

}  // namespace

void EchoServerRole(const Line& line, uint32_t count) {
  auto loop = EventLoop::Create();
  auto listener = ListenTcp(*MakeEndpoint("127.0.0.1", 0), kBacklog);
  if (!loop.ok() || !listener.ok()) Fail("lockstep-bench: echo");
  std::vector<UniqueFd> peers;
  std::optional<Time> broadcast;
  uint32_t answers = 0;

  const auto serve = [&](int fd) {
    std::array<char, kEcho> bytes{};
    const ssize_t got = recv(fd, bytes.data(), bytes.size(), 0);
    if (got <= 0) return (*loop)->Unwatch(fd);
    if (!broadcast) {
      send(fd, bytes.data(), static_cast<size_t>(got), MSG_NOSIGNAL);
    } else if (++answers == count) {
      line.Say(Milliseconds(BootTime() - *broadcast));
    }
  };
  const Status accepting = (*loop)->Watch(listener->get(), EPOLLIN, [&](uint32_t) {
    for (;;) {
      UniqueFd fd(accept4(listener->get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd.valid()) return;
      SetTcpOptions(fd.get());
      const int raw = fd.get();
      if (!(*loop)->Watch(raw, EPOLLIN, [&, raw](uint32_t) { serve(raw); }).ok()) Fail("epoll");
      peers.push_back(std::move(fd));
    }
  });
  if (!accepting.ok()) Fail("lockstep-bench: epoll");
  line.Watch(loop->get(), [&](const Json& question) {
    const std::string bytes(question.at("broadcast").get<size_t>(), 'b');
    broadcast = BootTime();
    answers = 0;
    for (const UniqueFd& peer : peers) {
      send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
  });
  line.Say({{"port", LocalEndpoint(listener->get())->port()}});
  (*loop)->Run();
}

void EchoClientRole(const Line& line, uint16_t port, uint32_t count) {
  auto loop = EventLoop::Create();
  if (!loop.ok()) Fail("lockstep-bench: echo");
  const Endpoint to = *MakeEndpoint("127.0.0.1", port);
  const std::string greeting(kEcho, 'e');
  std::vector<UniqueFd> sockets;
  std::unordered_map<int, bool> echoed;
  const Time began = BootTime();
  for (uint32_t i = 0; i < count; ++i) {
    Result<UniqueFd> fd = ConnectTcp(to);
    if (!fd.ok()) Fail("lockstep-bench: connect");
    const int raw = fd->get();
    const Status watched = (*loop)->Watch(raw, EPOLLOUT, [&, raw](uint32_t events) {
      if ((events & EPOLLOUT) != 0) {
        (*loop)->Modify(raw, EPOLLIN);
        send(raw, greeting.data(), greeting.size(), MSG_NOSIGNAL);
        return;
      }
      std::array<char, 1024> bytes{};
      if (recv(raw, bytes.data(), bytes.size(), 0) <= 0) return (*loop)->Unwatch(raw);
      if (echoed.contains(raw)) {  // a broadcast
        send(raw, greeting.data(), greeting.size(), MSG_NOSIGNAL);
        return;
      }
      echoed[raw] = true;
      if (echoed.size() == count) line.Say({{"connectMs", Milliseconds(BootTime() - began)}});
    });
    if (!watched.ok()) Fail("lockstep-bench: epoll");
    sockets.push_back(std::move(*fd));
  }
  (*loop)->Run();
}

}  // namespace lockstep::bench
