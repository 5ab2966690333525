// Connection: bytes to and from one peer over TCP, in clear or under TLS with the job's key, on the
// event loop. It never blocks, it is bounded in everything a peer can make it hold, and each of its
// ends has a reason in words.
//
//   auto connection = Connection::AcceptTls(loop, std::move(fd), tls, &handshakes);
//   connection->SetDeadline(BootTime() + seconds(5), "said nothing for 5 s");
//   connection->Start({.on_open = ..., .on_data = ..., .on_close = ...});
//
// What is written in one round of the loop leaves in one send at its end.
//
// A TLS server makes no TLS state before the peer's whole ClientHello is there (at most 4 KiB) and
// `handshakes` has a place: an unfinished handshake costs 45 KB. A ClientHello that does not prove
// the key fails at once, so nobody without the key can hold a place.
//
// The owner may destroy the connection at any time, in its callbacks too; destroying it cuts it off
// without on_close. on_close comes exactly once otherwise, and nothing comes after it.
#ifndef LOCKSTEP_BASE_NET_CONNECTION_H_
#define LOCKSTEP_BASE_NET_CONNECTION_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/crypto/tls_psk.h"
#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/loop/semaphore.h"
#include "base/net/tcp.h"
#include "base/time.h"
#include "base/unique_fd.h"

namespace lockstep {

class Connection : private Semaphore::Waiter {
 public:
  struct Handlers {
    std::function<void()> on_open;  // connected, and the key is proven where there is one
    std::function<void(std::string_view)> on_data;
    std::function<void(const std::string& reason)> on_close;
  };

  // Bytes that may stand unsent; a peer that does not read is cut off beyond it.
  static constexpr size_t kMaxQueued = size_t{2} << 20;
  // How long Close waits for the peer to take what is queued.
  static constexpr Duration kLinger = seconds(2);

  static std::unique_ptr<Connection> Accept(EventLoop* loop, UniqueFd fd);
  static std::unique_ptr<Connection> AcceptTls(EventLoop* loop, UniqueFd fd,
                                               const TlsPskContext* tls, Semaphore* handshakes);
  // `fd`: its connect() is under way (ConnectTcp).
  static std::unique_ptr<Connection> ConnectTls(EventLoop* loop, UniqueFd fd,
                                                const TlsPskContext* tls);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void Start(Handlers handlers);
  // For whoever takes an open connection over; what came before is his to hand on.
  void SetHandlers(Handlers handlers);

  // Closes at `when` with this reason; replaces the deadline before it.
  void SetDeadline(Time when, std::string reason);
  void ClearDeadline();

  // Never fails at once: a connection that ended tells it by on_close.
  void Write(std::string_view bytes);
  // Sends what is queued, says goodbye, then on_close(reason). Nothing more is delivered.
  void Close(std::string reason);
  // on_close(reason) at the end of this round, whatever is still queued.
  void Abort(std::string reason);

  // Freed with the connection: for whoever counts connections.
  void Hold(std::shared_ptr<void> held) { held_ = std::move(held); }

  // Of a client: the peer was reached, and has to prove the key.
  bool connected() const { return state_ == State::kHandshaking || open(); }
  bool open() const { return state_ == State::kOpen; }
  size_t queued() const;

 private:
  enum class State { kIdle, kConnecting, kHandshaking, kOpen, kClosing, kLingering, kClosed };

  Connection(EventLoop* loop, UniqueFd fd, const TlsPskContext* tls, Semaphore* handshakes,
             bool is_client);
  void OnAdmitted() override;

  void OnEvents(uint32_t events);
  void OnConnected();
  void OnReadable();
  // The next three return false when the connection is closed or destroyed.
  bool TakeBytes(std::string_view bytes);
  bool TakeClientHello(std::string_view bytes);
  bool Decrypt(std::string_view bytes);
  bool Deliver(std::string_view plain);
  void BecomeOpen();
  void ScheduleFlush();
  void Flush();
  bool EncryptMore();
  void StartLinger();
  void UpdateEvents();
  void Fail(std::string reason);
  std::string_view Unsent();
  void ConsumeUnsent(size_t bytes);

  EventLoop* loop_;
  UniqueFd fd_;
  const TlsPskContext* tls_;  // null: in clear
  Semaphore* handshakes_;
  const bool is_client_;
  State state_ = State::kIdle;
  std::shared_ptr<Handlers> handlers_;
  std::optional<TlsSession> session_;
  std::string client_hello_;  // until the session is made
  bool waits_for_permit_ = false;
  std::string queue_;  // plaintext; sent up to queue_sent_
  size_t queue_sent_ = 0;
  bool blocked_ = false;  // the socket takes no more for now
  bool flush_scheduled_ = false;
  bool says_goodbye_ = false;  // closing by Close, not by Abort
  std::string close_reason_;
  TimerId deadline_ = 0;
  Lifetime lifetime_;
  std::shared_ptr<void> held_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_NET_CONNECTION_H_
