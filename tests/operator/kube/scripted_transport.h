// ScriptedTransport: a Transport whose answers a test gives by hand, from any thread.
//
//   auto stream = transport.WaitForStream(seconds(60));
//   stream->Head({.status = 200}); stream->Data("..."); stream->End({});
//   auto call = transport.WaitForCall(seconds(60));
//   call->answer(Response{.status = 200, .body = "{}"});
#ifndef LOCKSTEP_TESTS_OPERATOR_KUBE_SCRIPTED_TRANSPORT_H_
#define LOCKSTEP_TESTS_OPERATOR_KUBE_SCRIPTED_TRANSPORT_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "operator/kube/http/transport.h"

namespace lockstep::kube {

class ScriptedTransport : public Transport {
 public:
  struct Call {
    Request request;
    Duration timeout{};
    OnResponse answer;
  };

  // The test's end of a stream. What is given after the other end was dropped goes nowhere.
  class OpenStream {
   public:
    OpenStream(Request request, StreamHandlers handlers)
        : request(std::move(request)), handlers_(std::move(handlers)) {}

    void Head(const Response& head) {
      Give([&] { handlers_.on_head(head); });
    }
    // Comes back when the other end has taken it.
    void Data(std::string_view data) {
      Give([&] {
        Count(data.size());
        handlers_.on_data(data);
      });
    }
    void End(Status status) {
      Give([&] { handlers_.on_end(std::move(status)); });
    }
    // Until so many bytes have been offered to the other end.
    bool WaitForBytes(size_t bytes, std::chrono::nanoseconds limit) {
      std::unique_lock lock(count_mutex_);
      return counted_.wait_for(lock, limit, [&] { return offered_ >= bytes; });
    }

    // Waits for a handler that runs, as ~Stream promises.
    void Cancel() {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
    }

    const Request request;

   private:
    template <typename Handler>
    void Give(Handler handler) {
      const std::lock_guard lock(mutex_);
      if (!cancelled_) handler();
    }
    void Count(size_t bytes) {
      const std::lock_guard lock(count_mutex_);
      offered_ += bytes;
      counted_.notify_all();
    }

    std::mutex mutex_;
    bool cancelled_ = false;
    StreamHandlers handlers_;
    std::mutex count_mutex_;
    std::condition_variable counted_;
    size_t offered_ = 0;
  };

  void Send(Request request, Duration timeout, OnResponse on_response) override {
    const std::lock_guard lock(mutex_);
    calls_.push_back({std::move(request), timeout, std::move(on_response)});
    changed_.notify_all();
  }

  std::unique_ptr<Stream> Open(Request request, Duration /*idle_timeout*/,
                               StreamHandlers handlers) override {
    auto stream = std::make_shared<OpenStream>(std::move(request), std::move(handlers));
    const std::lock_guard lock(mutex_);
    streams_.push_back(stream);
    changed_.notify_all();
    return std::make_unique<Handle>(std::move(stream));
  }

  // The next one that was asked for; null if none comes in time.
  std::unique_ptr<Call> WaitForCall(std::chrono::nanoseconds limit) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, limit, [&] { return !calls_.empty(); })) return nullptr;
    auto call = std::make_unique<Call>(std::move(calls_.front()));
    calls_.pop_front();
    return call;
  }
  std::shared_ptr<OpenStream> WaitForStream(std::chrono::nanoseconds limit) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, limit, [&] { return !streams_.empty(); })) return nullptr;
    auto stream = std::move(streams_.front());
    streams_.pop_front();
    return stream;
  }

 private:
  class Handle : public Stream {
   public:
    explicit Handle(std::shared_ptr<OpenStream> stream) : stream_(std::move(stream)) {}
    ~Handle() override { stream_->Cancel(); }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;

   private:
    std::shared_ptr<OpenStream> stream_;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Call> calls_;
  std::deque<std::shared_ptr<OpenStream>> streams_;
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_TESTS_OPERATOR_KUBE_SCRIPTED_TRANSPORT_H_
