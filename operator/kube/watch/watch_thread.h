// WatchThread: a WatchLoop on a Transport, in a thread of its own.
#ifndef LOCKSTEP_OPERATOR_KUBE_WATCH_WATCH_THREAD_H_
#define LOCKSTEP_OPERATOR_KUBE_WATCH_WATCH_THREAD_H_

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/result.h"
#include "operator/kube/http/transport.h"
#include "operator/kube/inbox.h"
#include "operator/kube/watch/watch_loop.h"

namespace lockstep::kube {

// Of a stream or a page.
struct WatchNews {
  std::optional<Response> head = {};
  std::string data = {};
  std::optional<Status> end = {};
  std::optional<Result<Response>> page = {};

  bool empty() const { return !head && data.empty() && !end && !page; }
};

class WatchThread {
 public:
  // Starts at once; ~WatchThread stops it. Both pointers must outlive it.
  WatchThread(Transport* transport, const WatchOptions& options, WatchSink* sink);
  ~WatchThread();
  WatchThread(const WatchThread&) = delete;
  WatchThread& operator=(const WatchThread&) = delete;

 private:
  void Run();
  void Follow(Request request);
  void Ask(Request request);

  Transport* transport_;
  const WatchOptions options_;
  WatchLoop loop_;  // the thread's
  std::shared_ptr<Inbox<WatchNews>> inbox_;
  std::thread thread_;
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_WATCH_WATCH_THREAD_H_
