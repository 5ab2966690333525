#include "base/net/acceptor.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace lockstep {

Acceptor::~Acceptor() {
  if (fd_.valid()) loop_->Unwatch(fd_.get());
}

Status Acceptor::Start(UniqueFd listener, Handlers handlers) {
  fd_ = std::move(listener);
  handlers_ = std::move(handlers);
  return loop_->Watch(fd_.get(), EPOLLIN, [this](uint32_t) { OnReady(); });
}

void Acceptor::OnReady() {
  for (int i = 0; i < kPerRound; ++i) {
    Endpoint peer;
    peer.size = sizeof peer.address;
    UniqueFd socket(accept4(fd_.get(), reinterpret_cast<sockaddr*>(&peer.address), &peer.size,
                            SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.valid()) {
      handlers_.on_accept(std::move(socket), peer);
      continue;
    }
    const bool exhausted =
        errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    if (exhausted && !(handlers_.on_exhausted && handlers_.on_exhausted())) Rest();
    return;
  }
}

void Acceptor::Rest() {
  loop_->Modify(fd_.get(), 0);
  rest_.WakeAt(BootTime() + kRest);
}

}  // namespace lockstep
