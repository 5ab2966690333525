// Client: requests to the API server as the operator makes them: typed errors, bounded retries, a
// window of requests under way that shrinks when the server is overloaded, and no write without the
// permit. Sits on a Transport; thread-safe.
//
//   Client client(std::move(transport), {.permit = [&] { return lease.Held(); }});
//   client.Call({Method::kPost, Path(kPods, "default"), body}, [](ApiResult<std::string> pod)
//   {...});
//
// Retried, within the call's deadline, with jittered backoff or as Retry-After says:
//  - 429 and 401, which were never acted on (401: once new credentials may be there);
//  - 5xx, a lost connection or an attempt's timeout: GET and DELETE, and POST, because names are
//    deterministic: what a lost attempt created makes the next one AlreadyExists.
// PUT and PATCH are not retried then: the error says `ambiguous`, and the caller reads first.
//
// There is no limit on requests a second (the server's priority and fairness is the judge), only
// the window: AIMD up to options.max_in_flight (client_window.h).
#ifndef LOCKSTEP_OPERATOR_KUBE_CLIENT_H_
#define LOCKSTEP_OPERATOR_KUBE_CLIENT_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/time.h"
#include "operator/kube/api.h"
#include "operator/kube/transport.h"

namespace lockstep::kube {

// One attempt, for metrics.
struct CallRecord {
  Method method;
  int http;           // 0: no answer
  ApiErrorKind kind;  // meaningful where ok is false
  bool ok;
  Duration duration;  // from handing it to the transport
};

struct ClientOptions {
  size_t max_in_flight = 32;               // as many as the transport keeps connections
  Duration timeout = seconds(30);          // of a call with its retries
  Duration attempt_timeout = seconds(15);  // of one attempt
  int attempts = 6;
  // Asked before every attempt of a write, on any thread; false refuses it locally (kForbidden,
  // http 0, reason "NotLeading").
  std::function<bool()> permit{};
  std::function<void(const CallRecord&)> on_attempt{};  // from any thread; must not block
};

class Client {
 public:
  using OnDone = std::function<void(ApiResult<std::string>)>;

  explicit Client(std::unique_ptr<Transport> transport, ClientOptions options = {});
  // Ends calls under way with kTransport; drops what their callbacks Call then. When it returns, no
  // callback runs or will.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Calls `done` exactly once with the answer's body, never from within Call, from a thread of the
  // client's or the transport's; it must not block, and may Call. `timeout`: 0 is options.timeout.
  void Call(Request request, OnDone done, Duration timeout = Duration(0));
  // The same, waited for. Not from a callback.
  ApiResult<std::string> CallAndWait(Request request, Duration timeout = Duration(0));

  // For watches; outside window and retries.
  Transport& transport();

  // How many requests may be under way now, are, and wait for that.
  struct Load {
    size_t window;
    size_t in_flight;
    size_t queued;
  };
  Load load() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_CLIENT_H_
