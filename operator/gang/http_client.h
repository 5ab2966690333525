// HttpClient: one connection to one agent's TLS port at a time and one request on it at a time,
// kept open between requests, on the event loop.
//
//   HttpClient client(loop, key, core::GangIdentity(job_uid));
//   client.Ask(address, GetStatusRequest(7, seconds(5)), now + seconds(7), [](auto answer) { ...
//   });
//
// Sizes are limited as in http_answer.h. A request has one deadline, and a shorter one until the
// handshake is done. The callback comes exactly once, never from within Ask, and may destroy the
// client; after Drop or the destructor it does not come. One thread.
#ifndef LOCKSTEP_OPERATOR_GANG_HTTP_CLIENT_H_
#define LOCKSTEP_OPERATOR_GANG_HTTP_CLIENT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/crypto/hkdf.h"
#include "base/crypto/tls_psk.h"
#include "base/event_loop.h"
#include "base/result.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "operator/gang/http_answer.h"

namespace lockstep::gang {

inline constexpr Duration kReachPatience = seconds(2);  // from connect to the end of the handshake

class HttpClient {
 public:
  // Unavailable, Timeout, Denied (another key), Invalid or TooLarge (an answer that isn't read).
  using OnAnswer = std::function<void(Result<HttpAnswer>)>;

  HttpClient(EventLoop* loop, const Key& key, std::string identity)
      : loop_(loop), key_(key), identity_(std::move(identity)) {}
  ~HttpClient() { Drop(); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // What was under way is dropped.
  void Ask(const std::string& address, std::string request, Time deadline, OnAnswer on_answer);
  bool busy() const { return on_answer_ != nullptr; }
  // Closes the connection; no callback comes.
  void Drop();

 private:
  void Begin();
  void OnTimer();
  void OnReady();
  Status Connect();
  Status FinishConnecting();
  Status Step(std::optional<HttpAnswer>* answer);
  Status SendSome();
  Status ReceiveSome();
  void Close();
  void Finish(Result<HttpAnswer> answer);

  EventLoop* loop_;
  Key key_;
  std::string identity_;
  std::string address_;
  std::string request_;
  Time deadline_ = kNever;
  TimerId timer_ = 0;
  OnAnswer on_answer_;
  bool sent_ = false;    // the request was given to TLS
  bool reused_ = false;  // the connection served another request before
  bool ended_ = false;   // by the peer
  UniqueFd fd_;
  std::optional<TlsPskContext> tls_;  // both once connected
  std::optional<TlsSession> session_;
  std::string received_;
};

}  // namespace lockstep::gang

#endif  // LOCKSTEP_OPERATOR_GANG_HTTP_CLIENT_H_
