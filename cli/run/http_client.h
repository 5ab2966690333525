// HttpClient: one connection to one agent's TLS port at a time, one request on it at a time; kept
// open between requests. Single-threaded: its owner waits for fd() and calls Advance.
//
//   client.Begin(address, GetStatusRequest(7, seconds(5)), now + seconds(7));
//   while (!answer) { wait for client.events() on client.fd(); answer = client.Advance(now); }
//
// Bounded: bodies up to 256 KiB by Content-Length only, one deadline for all of a request, no
// redirects.
#ifndef LOCKSTEP_CLI_RUN_HTTP_CLIENT_H_
#define LOCKSTEP_CLI_RUN_HTTP_CLIENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "base/tls_psk.h"
#include "base/unique_fd.h"

namespace lockstep::cli {

struct HttpAnswer {
  int status = 0;
  std::string body;
};

inline constexpr size_t kMaxAnswerHead = 8 * 1024;

// The answer at the beginning of `bytes`: nullopt while it isn't all there; Invalid or TooLarge
// when it never will be one that is read. `used` gets its length, `keep_alive` whether another may
// follow on the connection.
Result<std::optional<HttpAnswer>> ParseHttpAnswer(std::string_view bytes, size_t* used,
                                                  bool* keep_alive);

// Requests as agents take them (docs/protocol.md).
std::string GetStatusRequest(uint64_t after, Duration timeout);
std::string PutGangRequest(std::string_view body);

class HttpClient {
 public:
  // `context` must outlive it.
  explicit HttpClient(const TlsPskContext* context) : context_(context) {}

  // Sends `request` to the TLS port of `address` (an IPv4 address); what was under way is dropped.
  void Begin(const std::string& address, std::string request, Time deadline);
  bool busy() const { return busy_; }
  Time deadline() const { return busy_ ? deadline_ : kNever; }
  void Drop();

  // What to wait for; -1 when there is nothing to wait for but the next Advance.
  int fd() const { return busy_ ? fd_.get() : -1; }
  uint32_t events();  // of epoll

  // Goes on. The answer, or why there is none; nullopt while it is under way.
  std::optional<Result<HttpAnswer>> Advance(Time now);

 private:
  Status Connect();
  Status Step(std::optional<HttpAnswer>* answer);
  Status SendSome();
  Status ReceiveSome();

  const TlsPskContext* context_;
  std::string address_;
  std::string request_;
  Time deadline_ = kNever;
  bool busy_ = false;
  bool sent_ = false;    // the request was given to TLS
  bool reused_ = false;  // the connection served another request before
  bool ended_ = false;   // by the peer
  UniqueFd fd_;
  std::optional<TlsSession> session_;
  std::string received_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_HTTP_CLIENT_H_
