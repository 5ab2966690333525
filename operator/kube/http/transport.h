// Transport: HTTP to one API server. It hides the HTTP library behind requests, answers and
// streams. All implementations pass one contract test suite (tests/operator/kube/transport).
// docs/adr/006-http-library.md says which library is used and why.
//
// The transport adds credentials, and never logs anything. It follows no redirects, ignores proxies
// of the environment, and trusts only the configured authority.
#ifndef LOCKSTEP_OPERATOR_KUBE_HTTP_TRANSPORT_H_
#define LOCKSTEP_OPERATOR_KUBE_HTTP_TRANSPORT_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "operator/kube/config/client_config.h"

namespace lockstep::kube {

enum class Method { kGet, kPost, kPut, kPatch, kDelete };

// "GET", "POST", ...
const char* ToString(Method method);

struct Request {
  Method method = Method::kGet;
  std::string path;  // from the slash on, with the query; already encoded
  std::string body;
  std::string content_type = "application/json";
};

struct Response {
  int status = 0;
  std::string body;
  std::optional<Duration> retry_after;  // Retry-After in seconds; a date is not read
};

// A request whose answer comes piece by piece (a watch). Its destructor cancels it, at once: when
// that returns, none of its handlers runs or will. Not from a callback of the transport.
class Stream {
 public:
  virtual ~Stream() = default;
};

// Called one at a time and in this order, from a thread of the transport.
struct StreamHandlers {
  // At most once. A 2xx has no body here: it comes as data. Any other status has its whole body
  // (up to kMaxErrorBody) and is followed by on_end alone.
  std::function<void(const Response& head)> on_head;
  // Bytes as they arrive, without regard to lines. The next are read when it returns.
  std::function<void(std::string_view data)> on_data;
  // Exactly once unless cancelled first; ok when the server ended the answer properly. Unavailable:
  // cut off or not reached; Timeout: silent for idle_timeout; TooLarge; Denied (TLS).
  std::function<void(Status)> on_end;
};

inline constexpr size_t kMaxErrorBody = 64 * 1024;

// Thread-safe. Its destructor ends everything that is under way: requests with Unavailable; their
// callbacks must not send new ones.
class Transport {
 public:
  // Denied: TLS or a credential failed before anything was sent. Unavailable: not reached, or cut
  // off. Timeout, TooLarge. After any of these but Denied the server may have acted on the request.
  // What the server answers, whatever its status, is a Response. A request that finds its kept
  // connection closed by the server is sent again on another, whatever its method: names and
  // resourceVersions must make that harmless.
  using OnResponse = std::function<void(Result<Response>)>;

  virtual ~Transport() = default;

  // `timeout` covers connecting, waiting and reading. Calls `on_response` exactly once, from a
  // thread of the transport, never from within Send; it must not block.
  virtual void Send(Request request, Duration timeout, OnResponse on_response) = 0;

  // A stream silent for `idle_timeout`, at its beginning or later, ends with Timeout. All streams
  // must be gone before the transport.
  virtual std::unique_ptr<Stream> Open(Request request, Duration idle_timeout,
                                       StreamHandlers handlers) = 0;
};

struct TransportOptions {
  size_t connections = 32;  // kept open and warm; not a limit on requests under way
  size_t max_body = size_t{32} << 20;
  Duration connect_timeout = seconds(10);
  Duration unacknowledged = seconds(30);  // a peer that acknowledges no byte for so long is gone
  std::string user_agent = "lockstep";
};

// On libcurl. Invalid or NotFound: a certificate or a key that can't be read; Denied: an exec
// plugin that failed.
Result<std::unique_ptr<Transport>> MakeTransport(ClientConfig config,
                                                 TransportOptions options = {});

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_HTTP_TRANSPORT_H_
