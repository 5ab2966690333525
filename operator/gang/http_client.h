// HttpClient: one connection to one agent's TLS port at a time and one request on it at a time,
// kept open between requests, on the event loop.
//
//   HttpClient client(loop, key, core::GangIdentity(job_uid));
//   client.Ask(address, GetStatusRequest(7, seconds(5)), now + seconds(7),
//              [](auto answer) { ... });
//
// An answer has a body of at most kMaxStatusBody. A request has one deadline, and a shorter one
// until the handshake is done. The callback comes exactly once, never from within Ask, and may
// destroy the client; after Drop or the destructor it does not come. One thread.
#ifndef LOCKSTEP_OPERATOR_GANG_HTTP_CLIENT_H_
#define LOCKSTEP_OPERATOR_GANG_HTTP_CLIENT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/crypto/hkdf.h"
#include "base/crypto/tls_psk.h"
#include "base/http/http_answer.h"
#include "base/loop/event_loop.h"
#include "base/net/connection.h"
#include "base/result.h"
#include "base/time.h"

namespace lockstep::gang {

inline constexpr Duration kReachPatience = seconds(2);  // from connect to the end of the handshake

class HttpClient {
 public:
  // Unavailable (also with another key), Timeout, Invalid or TooLarge (an answer that isn't read).
  using OnAnswer = std::function<void(Result<HttpAnswer>)>;

  HttpClient(EventLoop* loop, const Key& key, std::string identity)
      : loop_(loop), key_(key), identity_(std::move(identity)) {}
  ~HttpClient() { Drop(); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Drops the request under way.
  void Ask(const std::string& address, std::string request, Time deadline, OnAnswer on_answer);
  bool busy() const { return on_answer_ != nullptr; }
  // Closes the connection; no callback comes.
  void Drop();

 private:
  void Begin();
  Status Connect();
  void Send();
  void OnData(std::string_view bytes);
  void OnClose(const std::string& reason);
  void OnTimer();
  void Finish(Result<HttpAnswer> answer);

  EventLoop* loop_;
  Key key_;
  std::string identity_;
  std::string address_;
  std::string request_;
  Time deadline_ = kNever;
  TimerId timer_ = 0;
  OnAnswer on_answer_;
  bool sent_ = false;    // the request was given to the connection
  bool reused_ = false;  // the connection served another request before
  std::optional<TlsPskContext> tls_;
  std::unique_ptr<Connection> connection_;  // of tls_
  std::string received_;
};

}  // namespace lockstep::gang

#endif  // LOCKSTEP_OPERATOR_GANG_HTTP_CLIENT_H_
