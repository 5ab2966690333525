// WatchLoop: a Reflector's state machine, without threads, sockets or clocks: which request comes
// next, and what follows from its answer.
//
//   kInitial  WATCH with sendInitialEvents: the whole state, then its changes, in one stream
//     |  refused, or no end of the state in time          end of the state
//     v                                                          |
//   kList     LIST in pages, consistent  --- last page --->  kFollow  WATCH from version_
//                                                                |
//   kInitial  <---- 410, 404; a version too new or going backwards
//
// An object that is too long or cannot be read is passed over, by its name (ObjectScan).
// Anything else that goes wrong is tried again from the same place, after a backoff unless the
// stream had got somewhere. version_ moves only by what the server sent in order: events of
// kFollow, bookmarks, whole lists; never by the unordered events of an initial state.
#ifndef LOCKSTEP_OPERATOR_KUBE_WATCH_WATCH_LOOP_H_
#define LOCKSTEP_OPERATOR_KUBE_WATCH_WATCH_LOOP_H_

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/text/line_buffer.h"
#include "base/time.h"
#include "operator/kube/api.h"
#include "operator/kube/decode/decode.h"
#include "operator/kube/decode/object_scan.h"
#include "operator/kube/http/transport.h"
#include "operator/kube/watch/watch.h"

namespace lockstep::kube {

// The part that depends on the type of the objects: collects them and delivers batches.
class WatchSink {
 public:
  virtual ~WatchSink() = default;
  // Decodes and collects.
  virtual Result<WatchLine> Line(std::string_view padded) = 0;
  virtual Result<ListPage> Page(std::string body) = 0;
  // Collects an object of which no more is known.
  virtual void Unreadable(EventKind kind, const UnreadableObject& object) = 0;
  // Forgets what was collected.
  virtual void Drop() = 0;
  // Delivers the collected objects as one batch.
  virtual void Deliver(bool replace, const std::string& version) = 0;
  virtual void Problem(const Error& error) = 0;
  virtual void Restarted() = 0;
};

// What the event says has happened to its object; absent for those that are of none.
std::optional<EventKind> KindOf(WatchLine::Type type);

class WatchLoop {
 public:
  enum class Kind : uint8_t { kWait, kStream, kPage };
  struct Step {
    Kind kind = Kind::kWait;
    Time until{};     // kWait
    Request request;  // else
  };

  WatchLoop(WatchOptions options, WatchSink* sink);

  // The next step. Not to be called while a stream or a page is under way.
  Step Next(Time now);

  // Takes bytes of a stream. False: the stream is no longer wanted; drop it and call Next.
  bool OnHead(const Response& head, Time now);
  bool OnData(std::string_view data, Time now);
  void OnEnd(const Status& status, Time now);
  // If no byte arrives by then, the stream is dead: call OnEnd with OnSilence's error.
  Time deadline() const;
  static Status Silence();

  void OnPage(Result<Response> answer, Time now);

 private:
  enum class State : uint8_t { kInitial, kList, kFollow };

  Request StreamRequest();
  Request PageRequest() const;
  bool OnLine(std::string_view line, Time now);
  std::optional<std::string_view> PassOver(std::string_view data, Time now);
  bool OnUnreadable(const ObjectScan& scan, const Error& error, Time now);
  bool OnBookmark(const WatchLine& line, Time now);
  bool Advance(const std::string& version, Time now);
  bool OnApiError(const ApiError& error, Time now);
  void OnPageBody(std::string body, Time now);
  void Synced(const std::string& version);
  void StartOver(const std::string& why, Time now);
  void Retry(const Error& error, std::optional<Duration> retry_after, Time now);
  Error Explained(Error error) const;

  const WatchOptions options_;
  WatchSink* sink_;
  std::minstd_rand random_;
  State state_ = State::kInitial;
  std::string version_;   // of what has been delivered; empty before the first state
  std::string continue_;  // kList: the next page
  uint32_t page_size_;
  int failures_ = 0;
  Time next_at_{};
  bool opened_before_ = false;

  LineBuffer lines_{kMaxWatchLine, kDecodePadding};
  std::optional<ObjectScan> passed_over_;  // the line that is too long, while it still comes
  size_t passed_bytes_ = 0;                // of it
  Time opened_at_{};
  Time last_byte_at_{};
  bool accepted_ = false;     // the stream's status was 200
  bool got_on_ = false;       // the stream has advanced version_
  bool undelivered_ = false;  // version_ has advanced since the last batch
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_WATCH_WATCH_LOOP_H_
