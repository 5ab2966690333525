// Reflector<T>: delivers the state of one resource and then each change, through failures of the
// API server and the network, for as long as it lives.
//
//   Reflector<PodView> pods(transport, {.path = Path(kPods, ""), .query = "labelSelector=..."},
//                           {.on_batch = [&](Batch<PodView> batch) { loop.Post(...); },
//                            .on_problem = [&](const Error& why) { ... },
//                            .on_restart = [&] { ... }});
//
// The first batch, and each after a gap that cannot be filled, is the whole state (`replace`), read
// consistently: a WATCH with sendInitialEvents, else a paged LIST, both without a resource version.
// Others hold changes in the server's order; a batch without events says how far the server is.
// An object that cannot be read (over kMaxWatchLine, or broken) is passed over and named: it stops
// no stream and no list.
// One thread, its own, calls all callbacks; ~Reflector stops it, and nothing is called after it.
#ifndef LOCKSTEP_OPERATOR_KUBE_WATCH_WATCH_H_
#define LOCKSTEP_OPERATOR_KUBE_WATCH_WATCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "operator/kube/views.h"

namespace lockstep::kube {

class Transport;

enum class EventKind : uint8_t { kAdded, kModified, kDeleted };

template <typename T>
struct WatchEvent {
  EventKind kind = EventKind::kAdded;
  T object;
  bool unreadable = false;  // of the object only name, namespace, UID and version are known
};

template <typename T>
struct Batch {
  bool replace = false;  // all events are kAdded, and what is not among them is gone
  std::vector<WatchEvent<T>> events = {};  // may be empty
  std::string resource_version = {};       // the state after this batch
  std::string name_space = {};             // all that it speaks of; "": the whole cluster
};

struct WatchOptions {
  std::string path = {};        // of the collection: /api/v1/pods
  std::string name_space = {};  // that `path` is of; "": all
  std::string query = {};       // labelSelector=...; may be empty
  uint64_t seed = 0;            // of jitter

  Duration silence = seconds(120);         // a stream without a byte for this long is dead
  Duration initial_silence = seconds(10);  // the same while the first state is awaited
  Duration backoff_min = milliseconds(800);
  Duration backoff_max = seconds(30);
  Duration healthy = seconds(10);  // a stream this old starts the backoff over
  Duration list_timeout = seconds(60);
  uint32_t page_size = 500;
};

template <typename T>
struct WatchHandlers {
  std::function<void(Batch<T>)> on_batch = {};
  // The state cannot be read or followed at present (a missing permission or CRD, a server that is
  // gone). It is tried again until it works; the next batch shows that it does.
  std::function<void(const Error&)> on_problem = {};
  // An object was read. What need not be kept of it may be taken away.
  std::function<void(EventKind, T&)> on_read = {};
  // All that was read is forgotten: the whole state comes anew.
  std::function<void()> on_anew = {};
  // An object exists and cannot be read, and why. Its event says so as well.
  std::function<void(const ObjectMeta&, const std::string& why)> on_unreadable = {};
  // A stream is opened, and it is not the first.
  std::function<void()> on_restart = {};
};

class WatchSink;
class WatchThread;

template <typename T>
class Reflector {
 public:
  // Starts at once. `transport` must outlive it.
  Reflector(Transport* transport, const WatchOptions& options, WatchHandlers<T> handlers);
  ~Reflector();

 private:
  std::unique_ptr<WatchSink> sink_;
  std::unique_ptr<WatchThread> thread_;
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_WATCH_WATCH_H_
