// Acceptor: takes connections from a listening socket, a bounded number in a round so that a crowd
// delays no heartbeat. When the process is out of descriptors it asks its owner to make room, or
// rests for 100 ms: a level-triggered listener that cannot accept would spin.
#ifndef LOCKSTEP_BASE_NET_ACCEPTOR_H_
#define LOCKSTEP_BASE_NET_ACCEPTOR_H_

#include <sys/epoll.h>

#include <functional>

#include "base/loop/event_loop.h"
#include "base/loop/wake_timer.h"
#include "base/net/tcp.h"
#include "base/result.h"
#include "base/time.h"
#include "base/unique_fd.h"

namespace lockstep {

class Acceptor {
 public:
  struct Handlers {
    std::function<void(UniqueFd socket, const Endpoint& peer)> on_accept;
    // Out of descriptors: true when one was closed. May be empty.
    std::function<bool()> on_exhausted = {};
  };

  static constexpr int kPerRound = 64;
  static constexpr Duration kRest = milliseconds(100);

  explicit Acceptor(EventLoop* loop)
      : loop_(loop), rest_(loop, [this] { loop_->Modify(fd_.get(), EPOLLIN); }) {}
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Takes the socket, which must be listening and non-blocking.
  Status Start(UniqueFd listener, Handlers handlers);
  bool started() const { return fd_.valid(); }

 private:
  void OnReady();
  void Rest();

  EventLoop* loop_;
  UniqueFd fd_;
  Handlers handlers_;
  WakeTimer rest_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_NET_ACCEPTOR_H_
