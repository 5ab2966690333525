// WatchThread: a WatchLoop on a Transport, in a thread of its own.
#ifndef LOCKSTEP_OPERATOR_KUBE_WATCH_THREAD_H_
#define LOCKSTEP_OPERATOR_KUBE_WATCH_THREAD_H_

#include <memory>
#include <thread>

#include "base/time.h"
#include "operator/kube/transport.h"
#include "operator/kube/watch_loop.h"

namespace lockstep::kube {

class WatchThread {
 public:
  // Starts at once; ~WatchThread stops it. Both pointers must outlive it.
  WatchThread(Transport* transport, const WatchOptions& options, WatchSink* sink);
  ~WatchThread();
  WatchThread(const WatchThread&) = delete;
  WatchThread& operator=(const WatchThread&) = delete;

 private:
  struct Inbox;

  void Run();
  void Follow(Request request);
  void Ask(Request request);

  Transport* transport_;
  const WatchOptions options_;
  WatchLoop loop_;  // the thread's
  // Outlives this object where an answer still comes.
  std::shared_ptr<Inbox> inbox_;
  std::thread thread_;
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_WATCH_THREAD_H_
