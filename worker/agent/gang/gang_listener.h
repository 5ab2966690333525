// GangListener: the agent's TLS port. It proves the key of whoever connects, tells members of the
// gang (frame.h) from HTTP by their first decrypted bytes, and hands each on.
//
// Strangers cost little and take nothing away: at most 256 handshakes are unfinished at once, each
// connection has five seconds to prove the key and say what it wants, and when all places are
// taken the oldest connection that has proven nothing makes room. Every refusal has a reason in the
// log, ten lines in ten seconds at most.
#ifndef LOCKSTEP_WORKER_AGENT_GANG_GANG_LISTENER_H_
#define LOCKSTEP_WORKER_AGENT_GANG_GANG_LISTENER_H_

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/crypto/tls_psk.h"
#include "base/loop/event_loop.h"
#include "base/loop/semaphore.h"
#include "base/net/acceptor.h"
#include "base/net/connection.h"
#include "base/net/tcp.h"
#include "base/result.h"
#include "base/time.h"
#include "worker/agent/gang/frame_connection.h"
#include "worker/agent/logs/log.h"
#include "worker/agent/metrics/families.h"

namespace lockstep::agent {

struct GangListenerOptions {
  size_t max_connections = 8192;  // proven or not: two of each machine
  size_t max_handshakes = 256;
  Duration greeting_deadline = seconds(5);
};

class GangListener : public prometheus::Collectable {
 public:
  struct Handlers {
    // Must Start() it, or drop it, in the call.
    std::function<void(std::unique_ptr<FrameConnection>, const Endpoint& peer)> on_member;
    // `received`: the decrypted bytes so far.
    std::function<void(std::unique_ptr<Connection>, std::string_view received)> on_http;
  };

  // Conflict when the port is taken. `tls` is a server's context and outlives the listener.
  static Result<std::unique_ptr<GangListener>> Listen(EventLoop* loop, const Endpoint& endpoint,
                                                      const TlsPskContext* tls,
                                                      GangListenerOptions options,
                                                      Handlers handlers, LogFn log);
  GangListener(const GangListener&) = delete;
  GangListener& operator=(const GangListener&) = delete;

  const Endpoint& endpoint() const { return endpoint_; }
  // Connections that stand, handed on or not; and those refused since the start.
  size_t connections() const { return *count_; }
  uint64_t refused() const { return refused_; }
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  // Has not said what it wants yet.
  struct Pending {
    std::unique_ptr<Connection> connection;
    Endpoint peer;
    std::string received;
  };
  using PendingList = std::list<Pending>;

  GangListener(EventLoop* loop, const TlsPskContext* tls, GangListenerOptions options,
               Handlers handlers, LogFn log);
  void OnAccept(UniqueFd fd, const Endpoint& peer);
  bool MakeRoom();
  void Add(UniqueFd fd, const Endpoint& peer);
  void OnBytes(PendingList::iterator pending, std::string_view bytes);
  void HandOn(PendingList::iterator pending, Greeting greeting);
  void Refuse(const Endpoint& peer, const std::string& reason);

  EventLoop* loop_;
  const TlsPskContext* tls_;
  GangListenerOptions options_;
  Handlers handlers_;
  RateLimitedLog log_;
  Semaphore handshakes_;
  Acceptor acceptor_;
  Endpoint endpoint_;
  PendingList pending_;  // oldest first
  std::shared_ptr<size_t> count_ = std::make_shared<size_t>(0);
  uint64_t refused_ = 0;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_GANG_GANG_LISTENER_H_
