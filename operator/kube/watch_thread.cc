#include "operator/kube/watch_thread.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/thread_annotations.h"

namespace lockstep::kube {
namespace {

// Data that nobody has looked at yet; beyond this the transport waits.
constexpr size_t kMaxUnread = size_t{4} << 20;
// condition_variable adds its clock to what it is given.
constexpr Duration kLongestWait = hours(1);

}  // namespace

// What the request under way has brought. Requests are numbered, so that what comes late of one
// that was given up finds nobody.
struct WatchThread::Inbox {
  struct News {
    std::optional<Response> head;
    std::string data;
    std::optional<Status> end;
    std::optional<Result<Response>> page;

    bool empty() const { return !head && data.empty() && !end && !page; }
  };

  Mutex mutex;
  std::condition_variable_any changed;
  bool stopping GUARDED_BY(mutex) = false;
  uint64_t number GUARDED_BY(mutex) = 0;
  News news GUARDED_BY(mutex);

  // Gives the next request its number; what came of the last one is forgotten.
  uint64_t Begin() {
    const MutexLock lock(&mutex);
    news = {};
    changed.notify_all();
    return ++number;
  }

  void Stop() {
    const MutexLock lock(&mutex);
    stopping = true;
    changed.notify_all();
  }

  bool Stopping() {
    const MutexLock lock(&mutex);
    return stopping;
  }

  // From a transport's thread.
  template <typename Change>
  void Put(uint64_t of, Change change) {
    const MutexLock lock(&mutex);
    if (of != number) return;
    change(news);
    changed.notify_all();
  }
  void PutData(uint64_t of, std::string_view data) {
    const MutexLock lock(&mutex);
    while (of == number && !stopping && news.data.size() > kMaxUnread) changed.wait(mutex);
    if (of != number || stopping) return;
    news.data.append(data);
    changed.notify_all();
  }

  // What there is; empty when the time has come, or when stopping.
  News Take(Time until) {
    const MutexLock lock(&mutex);
    while (news.empty() && !stopping) {
      const Duration left = until - BootTime();
      if (left <= Duration(0)) break;
      changed.wait_for(mutex, std::min(left, kLongestWait));
    }
    if (stopping) return {};
    changed.notify_all();
    return std::exchange(news, {});
  }
};

WatchThread::WatchThread(Transport* transport, const WatchOptions& options, WatchSink* sink)
    : transport_(transport),
      options_(options),
      loop_(options, sink),
      inbox_(std::make_shared<Inbox>()),
      thread_([this] { Run(); }) {}

WatchThread::~WatchThread() {
  inbox_->Stop();
  thread_.join();
}

void WatchThread::Run() {
  while (!inbox_->Stopping()) {
    WatchLoop::Step step = loop_.Next(BootTime());
    switch (step.kind) {
      case WatchLoop::Kind::kWait:
        inbox_->Take(step.until);
        break;
      case WatchLoop::Kind::kStream:
        Follow(std::move(step.request));
        break;
      case WatchLoop::Kind::kPage:
        Ask(std::move(step.request));
        break;
    }
  }
}

void WatchThread::Follow(Request request) {
  const uint64_t number = inbox_->Begin();
  auto inbox = inbox_;
  const std::unique_ptr<Stream> stream = transport_->Open(
      std::move(request), options_.silence,
      {.on_head =
           [=](const Response& head) {
             inbox->Put(number, [&](Inbox::News& news) { news.head = head; });
           },
       .on_data = [=](std::string_view data) { inbox->PutData(number, data); },
       .on_end =
           [=](Status status) {
             inbox->Put(number, [&](Inbox::News& news) { news.end = std::move(status); });
           }});
  while (!inbox_->Stopping()) {
    const Inbox::News news = inbox_->Take(loop_.deadline());
    const Time now = BootTime();
    if (news.head && !loop_.OnHead(*news.head, now)) break;
    if (!news.data.empty() && !loop_.OnData(news.data, now)) break;
    if (news.end) {
      loop_.OnEnd(*news.end, now);
      break;
    }
    if (news.empty() && now >= loop_.deadline()) {
      loop_.OnEnd(WatchLoop::Silence(), now);
      break;
    }
  }
  // A handler that waits for room must return before the stream can go.
  inbox_->Begin();
}

void WatchThread::Ask(Request request) {
  const uint64_t number = inbox_->Begin();
  auto inbox = inbox_;
  transport_->Send(std::move(request), options_.list_timeout, [=](Result<Response> answer) {
    inbox->Put(number, [&](Inbox::News& news) { news.page = std::move(answer); });
  });
  Inbox::News news = inbox_->Take(kNever);
  if (news.page) loop_.OnPage(std::move(*news.page), BootTime());
}

}  // namespace lockstep::kube
