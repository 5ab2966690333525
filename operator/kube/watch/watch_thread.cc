#include "operator/kube/watch/watch_thread.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/thread.h"

namespace lockstep::kube {
namespace {

// The limit on unread data; beyond it the transport waits.
constexpr size_t kMaxUnread = size_t{4} << 20;

}  // namespace

WatchThread::WatchThread(Transport* transport, const WatchOptions& options, WatchSink* sink)
    : transport_(transport),
      options_(options),
      loop_(options, sink),
      inbox_(std::make_shared<Inbox<WatchNews>>()),
      thread_(StartThreadOrThrow([this] { Run(); })) {}

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
             inbox->Put(number, [&](WatchNews& news) { news.head = head; });
           },
       .on_data =
           [=](std::string_view data) {
             inbox->PutWhen(
                 number, [](const WatchNews& news) { return news.data.size() <= kMaxUnread; },
                 [&](WatchNews& news) { news.data.append(data); });
           },
       .on_end =
           [=](Status status) {
             inbox->Put(number, [&](WatchNews& news) { news.end = std::move(status); });
           }});
  while (!inbox_->Stopping()) {
    const WatchNews news = inbox_->Take(loop_.deadline());
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
  // A handler that waits for room must return before the stream can be destroyed.
  inbox_->Begin();
}

void WatchThread::Ask(Request request) {
  const uint64_t number = inbox_->Begin();
  auto inbox = inbox_;
  transport_->Send(std::move(request), options_.list_timeout, [=](Result<Response> answer) {
    inbox->Put(number, [&](WatchNews& news) { news.page = std::move(answer); });
  });
  WatchNews news = inbox_->Take(kNever);
  if (news.page) loop_.OnPage(std::move(*news.page), BootTime());
}

}  // namespace lockstep::kube
