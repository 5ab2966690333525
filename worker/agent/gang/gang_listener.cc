#include "worker/agent/gang/gang_listener.h"

#include <utility>

namespace lockstep::agent {
namespace {

constexpr int kBacklog = 4096;  // the kernel's somaxconn caps it
constexpr uint64_t kLogBurst = 10;
constexpr Duration kLogWindow = seconds(10);

}  // namespace

Result<std::unique_ptr<GangListener>> GangListener::Listen(EventLoop* loop,
                                                           const Endpoint& endpoint,
                                                           const TlsPskContext* tls,
                                                           GangListenerOptions options,
                                                           Handlers handlers, LogFn log) {
  Result<UniqueFd> fd = ListenTcp(endpoint, kBacklog);
  if (!fd.ok()) return fd.error();
  const Result<Endpoint> local = LocalEndpoint(fd->get());
  if (!local.ok()) return local.error();
  std::unique_ptr<GangListener> listener(
      new GangListener(loop, tls, options, std::move(handlers), std::move(log)));
  listener->endpoint_ = *local;
  GangListener* raw = listener.get();
  const Status started = raw->acceptor_.Start(
      std::move(*fd),
      {.on_accept = [raw](UniqueFd socket,
                          const Endpoint& peer) { raw->OnAccept(std::move(socket), peer); },
       .on_exhausted = [raw] { return raw->MakeRoom(); }});
  if (!started.ok()) return started.error();
  return listener;
}

GangListener::GangListener(EventLoop* loop, const TlsPskContext* tls, GangListenerOptions options,
                           Handlers handlers, LogFn log)
    : loop_(loop),
      tls_(tls),
      options_(options),
      handlers_(std::move(handlers)),
      log_(std::move(log), kLogBurst, kLogWindow),
      handshakes_(loop, options.max_handshakes),
      acceptor_(loop) {}

void GangListener::OnAccept(UniqueFd fd, const Endpoint& peer) {
  if (*count_ >= options_.max_connections && !MakeRoom()) {
    return Refuse(peer,
                  "all " + std::to_string(options_.max_connections) + " connections are in use");
  }
  Add(std::move(fd), peer);
}

// Drops the oldest connection that has proven nothing.
bool GangListener::MakeRoom() {
  if (pending_.empty()) return false;
  Refuse(pending_.front().peer, "was closed for newer connections before it proved the key");
  pending_.pop_front();
  return true;
}

void GangListener::Add(UniqueFd fd, const Endpoint& peer) {
  ++*count_;
  const PendingList::iterator pending = pending_.insert(
      pending_.end(), {Connection::AcceptTls(loop_, std::move(fd), tls_, &handshakes_), peer, {}});
  Connection& connection = *pending->connection;
  connection.Hold(std::shared_ptr<void>(nullptr, [count = count_](void*) { --*count; }));
  connection.SetDeadline(loop_->now() + options_.greeting_deadline,
                         "did not prove the key and send a greeting in time");
  connection.Start({.on_open = {},
                    .on_data = [this, pending](std::string_view bytes) { OnBytes(pending, bytes); },
                    .on_close =
                        [this, pending](const std::string& reason) {
                          Refuse(pending->peer, reason);
                          pending_.erase(pending);
                        }});
}

void GangListener::OnBytes(PendingList::iterator pending, std::string_view bytes) {
  pending->received.append(bytes);
  const Greeting greeting = ClassifyGreeting(pending->received);
  if (greeting == Greeting::kNeedMore) return;
  if (greeting == Greeting::kOtherVersion) {
    pending->connection->Abort("speaks version " +
                               std::to_string(static_cast<unsigned char>(pending->received[7])) +
                               " of the gang's protocol; this agent uses version 1");
    return;
  }
  HandOn(pending, greeting);
}

void GangListener::HandOn(PendingList::iterator pending, Greeting greeting) {
  Pending taken = std::move(*pending);
  pending_.erase(pending);
  taken.connection->ClearDeadline();
  if (greeting == Greeting::kFrames) {
    handlers_.on_member(std::make_unique<FrameConnection>(
                            std::move(taken.connection), loop_,
                            std::string_view(taken.received).substr(kFrameMagic.size())),
                        taken.peer);
  } else {
    handlers_.on_http(std::move(taken.connection), taken.received);
  }
}

void GangListener::Refuse(const Endpoint& peer, const std::string& reason) {
  ++refused_;
  log_.Write(loop_->now(), "refused a connection from " + peer.ToString() + ": " + reason);
}

std::vector<prometheus::MetricFamily> GangListener::Collect() const {
  return Families()
      .Counter("lockstep_refused_connections_total",
               "Connections to the gang's port that were refused: wrong key, wrong protocol, too "
               "slow or too many.",
               refused_)
      .Take();
}

}  // namespace lockstep::agent
