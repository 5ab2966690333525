// Client: the operator's requests to the API server. Adds to a Transport: typed errors, bounded
// retries, a limit on concurrent requests that shrinks when the server is overloaded, and the check
// that writes have the permit. Thread-safe.
//
//   Client client(std::move(transport), {.permit = [&] { return lease.Held(); }});
//   client.Call({Method::kPost, Path(kPods, "default"), body},
//               [](ApiResult<std::string> pod) { ... });
//
// Retried, within the call's deadline, with jittered backoff or as Retry-After says:
//  - 429 and 401, which were never acted on (401: once new credentials may be there);
//  - 5xx, a lost connection or an attempt's timeout: GET and DELETE, and POST, because names are
//    deterministic: what a lost attempt created makes the next one AlreadyExists.
// PUT and PATCH are not retried then: the error says `ambiguous`, and the caller reads first.
//
// There is no limit on requests a second, which is left to the server's priority and fairness; only
// the window limits: AIMD up to options.max_in_flight (client_window.h). Those that wait for room
// in it go by urgency, and namespaces take turns (fair_queue.h).
#ifndef LOCKSTEP_OPERATOR_KUBE_CLIENT_H_
#define LOCKSTEP_OPERATOR_KUBE_CLIENT_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/time.h"
#include "operator/kube/api.h"
#include "operator/kube/fair_queue.h"
#include "operator/kube/http/transport.h"

namespace lockstep::kube {

// One attempt, for metrics.
struct CallRecord {
  Method method;
  int http;           // 0: no answer
  ApiErrorKind kind;  // meaningful where ok is false
  bool ok;
  Duration duration;  // from handing it to the transport
};

// When a request's turn is.
struct CallTurn {
  std::string name_space = {};  // for whose sake it is made; "": nobody's
  Priority priority = Priority::kNormal;
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
  // Ends calls under way with kTransport, and drops calls that their callbacks make then. No
  // callback runs after it returns.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Calls `done` exactly once with the answer's body, from a thread of the client or the transport,
  // never from within Call. `done` must not block; it may Call.
  void Call(Request request, OnDone done, CallTurn turn = {});
  // Blocks until the answer. Not from a callback.
  ApiResult<std::string> CallAndWait(Request request);

  // For watches, which the window does not count and which are not retried.
  Transport& transport();

  // The window: how many requests may be under way, how many are, and how many wait.
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
