#include "operator/kube/client.h"

#include <algorithm>
#include <condition_variable>
#include <future>
#include <map>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "base/backoff.h"
#include "base/text/ascii.h"
#include "base/thread.h"
#include "base/thread_annotations.h"
#include "operator/kube/client_window.h"

namespace lockstep::kube {
namespace {

constexpr Duration kFirstBackoff = milliseconds(100);
constexpr Duration kLongestBackoff = seconds(5);
// New credentials arrive within seconds or not at all.
constexpr int kUnauthorizedAttempts = 3;

bool IsWrite(Method method) { return method != Method::kGet; }

// Whether the body is an object of the API, and not a proxy's HTML or half an object.
bool LooksLikeObject(std::string_view body) {
  const std::string_view object = Trim(body);
  return object.starts_with('{') && object.ends_with('}');
}

ApiResult<std::string> Read(Result<Response> response, bool write) {
  if (!response.ok()) return ErrorOfTransport(response.error(), write);
  if (response->status < 200 || response->status > 299) {
    return ErrorOfStatus(response->status, response->body, response->retry_after, write);
  }
  if (LooksLikeObject(response->body)) return std::move(response->body);
  ApiError error;
  error.kind = ApiErrorKind::kDecode;
  error.http = response->status;
  error.message = "the answer is not a JSON object";
  error.ambiguous = write;
  return error;
}

// Whether the same request may be sent again (client.h says when, and why).
bool MayRetry(Method method, const ApiError& error, int attempts_made) {
  if (error.http == 429) return true;
  if (error.http == 401) return attempts_made < kUnauthorizedAttempts;
  bool failed = error.http == 0 ? error.kind != ApiErrorKind::kDecode : error.http >= 500;
  return failed && method != Method::kPut && method != Method::kPatch;
}

}  // namespace

class Client::Core {
 public:
  Core(std::unique_ptr<Transport> transport, ClientOptions options)
      : options_(std::move(options)),
        transport_(std::move(transport)),
        window_(options_.max_in_flight),
        random_(std::random_device{}()),
        thread_(StartThreadOrThrow([this] { RunDue(); })) {}

  ~Core() {
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
      wake_.notify_one();
    }
    thread_.join();
    transport_.reset();  // ends what it has under way
    std::vector<Shared> queued;
    {
      MutexLock lock(&mutex_);
      while (std::optional<Shared> call = queued_.Take()) queued.push_back(*std::move(call));
      for (auto& [when, call] : delayed_) queued.push_back(std::move(call));
      delayed_.clear();
    }
    for (const Shared& call : queued) call->done(Closing());
  }

  void Add(Request request, OnDone done, CallTurn turn) {
    Time now = BootTime();
    auto call = std::make_shared<PendingCall>();
    call->request = std::move(request);
    call->done = std::move(done);
    call->turn = std::move(turn);
    call->deadline = now + options_.timeout;
    {
      MutexLock lock(&mutex_);
      Queue(std::move(call));
    }
    SendQueued();
  }

  Transport& transport() { return *transport_; }

  Load load() const {
    MutexLock lock(&mutex_);
    return {window_.size(), in_flight_, queued_.size()};
  }

 private:
  struct PendingCall {
    Request request;
    OnDone done;
    CallTurn turn;
    Time deadline{};
    int attempts = 0;
    Time sent{};
    std::optional<ApiError> verdict{};  // to be delivered by the thread
  };
  using Shared = std::shared_ptr<PendingCall>;

  static ApiError Closing() {
    ApiError error;
    error.kind = ApiErrorKind::kTransport;
    error.message = "the client is being closed";
    return error;
  }

  static ApiError NotLeading() {
    ApiError error;
    error.kind = ApiErrorKind::kForbidden;
    error.reason = "NotLeading";
    error.message = "not written: this operator does not hold the lease";
    return error;
  }

  static ApiError WaitedTooLong() {
    ApiError error;
    error.kind = ApiErrorKind::kTimeout;
    error.message = "the deadline passed before the request could be sent";
    return error;
  }

  // Sends what the window has room for. Under the lock, so that nothing is sent once stopping_ is
  // set; Send never calls back from within itself.
  void SendQueued() {
    MutexLock lock(&mutex_);
    while (!stopping_ && !queued_.empty() && in_flight_ < window_.size()) {
      Attempt(*queued_.Take());
    }
  }

  void Queue(Shared call) REQUIRES(mutex_) {
    const FairPlace place = {call->turn.name_space, call->turn.priority, turns_++};
    queued_.Insert(place, std::move(call));
  }

  void Attempt(const Shared& call) REQUIRES(mutex_) {
    Time now = BootTime();
    if (now >= call->deadline) {
      Refuse(call, WaitedTooLong());
    } else if (IsWrite(call->request.method) && options_.permit && !options_.permit()) {
      Refuse(call, NotLeading());
    } else {
      ++in_flight_;
      ++call->attempts;
      call->sent = now;
      transport_->Send(call->request, std::min(options_.attempt_timeout, call->deadline - now),
                       [this, call](Result<Response> response) {
                         Answered(call, Read(std::move(response), IsWrite(call->request.method)));
                       });
    }
  }

  // Nothing was sent. The thread calls back, since this may run within Call.
  void Refuse(const Shared& call, ApiError why) REQUIRES(mutex_) {
    call->verdict = std::move(why);
    Delay(call, Time(0));
  }

  void Delay(const Shared& call, Time until) REQUIRES(mutex_) {
    delayed_.emplace(until, call);
    wake_.notify_one();
  }

  void Answered(const Shared& call, ApiResult<std::string> result) {
    Time now = BootTime();
    bool over = result.ok();
    if (options_.on_attempt) {
      options_.on_attempt({call->request.method, over ? 200 : result.error().http,
                           over ? ApiErrorKind::kServer : result.error().kind, over,
                           now - call->sent});
    }
    {
      MutexLock lock(&mutex_);
      --in_flight_;
      window_.OnAnswer(call->sent, now, !over && result.error().http == 429);
      if (!over) over = !Retry(call, result.error(), now);
    }
    if (over) call->done(std::move(result));
    SendQueued();
  }

  // Whether it is tried again.
  bool Retry(const Shared& call, const ApiError& error, Time now) REQUIRES(mutex_) {
    if (stopping_ || call->attempts >= options_.attempts ||
        !MayRetry(call->request.method, error, call->attempts)) {
      return false;
    }
    Duration backoff = DoubledPause(kFirstBackoff, kLongestBackoff, call->attempts - 1);
    std::uniform_real_distribution<double> jitter(0.5, 1.5);
    Duration delay =
        error.retry_after.value_or(Duration(0)) +
        Duration(static_cast<int64_t>(static_cast<double>(backoff.count()) * jitter(random_)));
    if (now + delay >= call->deadline) return false;
    Delay(call, now + delay);
    return true;
  }

  void RunDue() {
    for (;;) {
      std::vector<Shared> told;
      {
        MutexLock lock(&mutex_);
        for (;;) {
          if (stopping_) return;
          Time now = BootTime();
          if (!delayed_.empty() && delayed_.begin()->first <= now) break;
          if (delayed_.empty()) {
            wake_.wait(mutex_);
          } else {
            wake_.wait_for(mutex_, delayed_.begin()->first - now);
          }
        }
        Time now = BootTime();
        while (!delayed_.empty() && delayed_.begin()->first <= now) {
          Shared call = std::move(delayed_.begin()->second);
          delayed_.erase(delayed_.begin());
          if (call->verdict) {
            told.push_back(std::move(call));
          } else {
            Queue(std::move(call));
          }
        }
      }
      for (const Shared& call : told) call->done(*std::move(call->verdict));
      SendQueued();
    }
  }

  const ClientOptions options_;
  std::unique_ptr<Transport> transport_;
  mutable Mutex mutex_;
  std::condition_variable_any wake_;
  ClientWindow window_ GUARDED_BY(mutex_);
  size_t in_flight_ GUARDED_BY(mutex_) = 0;
  FairQueue<Shared> queued_ GUARDED_BY(mutex_);
  uint64_t turns_ GUARDED_BY(mutex_) = 0;
  std::multimap<Time, Shared> delayed_ GUARDED_BY(mutex_);
  std::mt19937 random_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

Client::Client(std::unique_ptr<Transport> transport, ClientOptions options)
    : core_(std::make_unique<Core>(std::move(transport), std::move(options))) {}

Client::~Client() = default;

void Client::Call(Request request, OnDone done, CallTurn turn) {
  core_->Add(std::move(request), std::move(done), std::move(turn));
}

ApiResult<std::string> Client::CallAndWait(Request request) {
  std::promise<ApiResult<std::string>> answer;
  Call(std::move(request),
       [&answer](ApiResult<std::string> result) { answer.set_value(std::move(result)); });
  return answer.get_future().get();
}

Transport& Client::transport() { return core_->transport(); }

Client::Load Client::load() const { return core_->load(); }

}  // namespace lockstep::kube
