#include "operator/kube/client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "operator/kube/client_window.h"

namespace lockstep::kube {
namespace {

Response Answer(int status, std::string body = "{}", std::optional<Duration> after = {}) {
  return {status, std::move(body), after};
}

// Answers from a thread of its own, with what it was given and with 200 after that. Holds requests
// back while `held`.
class FakeTransport final : public Transport {
 public:
  struct Record {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Result<Response>> answers;
    std::vector<Request> requests;
    bool held = false;

    size_t Sent() {
      std::lock_guard lock(mutex);
      return requests.size();
    }
  };

  explicit FakeTransport(Record* record) : record_(record), thread_([this] { Run(); }) {}
  ~FakeTransport() override {
    {
      std::lock_guard lock(record_->mutex);
      ending_ = true;
      record_->changed.notify_all();
    }
    thread_.join();
    for (auto& [request, done] : pending_) done(Error::Unavailable("ended"));
  }

  void Send(Request request, Duration, OnResponse on_response) override {
    std::lock_guard lock(record_->mutex);
    record_->requests.push_back(request);
    pending_.emplace_back(std::move(request), std::move(on_response));
    record_->changed.notify_all();
  }
  std::unique_ptr<Stream> Open(Request, Duration, StreamHandlers) override { return nullptr; }

 private:
  void Run() {
    std::unique_lock lock(record_->mutex);
    for (;;) {
      record_->changed.wait(lock, [&] { return ending_ || (!pending_.empty() && !record_->held); });
      if (ending_) return;
      OnResponse done = std::move(pending_.front().second);
      pending_.pop_front();
      Result<Response> answer = Answer(200);
      if (!record_->answers.empty()) {
        answer = std::move(record_->answers.front());
        record_->answers.pop_front();
      }
      lock.unlock();
      done(std::move(answer));
      lock.lock();
    }
  }

  Record* record_;
  bool ending_ = false;
  std::deque<std::pair<Request, OnResponse>> pending_;
  std::thread thread_;
};

class ClientTest : public testing::Test {
 protected:
  std::unique_ptr<Client> Make(ClientOptions options = {}) {
    return std::make_unique<Client>(std::make_unique<FakeTransport>(&record_), std::move(options));
  }

  // What `method` ends in when its first answers are `answers`.
  ApiResult<std::string> Outcome(Method method, std::deque<Result<Response>> answers) {
    record_.answers = std::move(answers);
    record_.requests.clear();
    auto client = Make();
    return client->CallAndWait({method, "/x", "{}"});
  }

  FakeTransport::Record record_;
};

constexpr char kStatus409[] =
    R"({"kind":"Status","reason":"AlreadyExists","message":"pods \"a\" already exists"})";

TEST_F(ClientTest, AGoodAnswerIsItsBody) {
  ApiResult<std::string> result = Outcome(Method::kPost, {Answer(201, "{\"a\":1}\n")});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(*result, "{\"a\":1}\n");
  EXPECT_EQ(record_.Sent(), 1);
}

TEST_F(ClientTest, AnErrorHasTheStatusObjectsReasonAndIsNotRetried) {
  ApiResult<std::string> result = Outcome(Method::kPost, {Answer(409, kStatus409)});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ApiErrorKind::kAlreadyExists);
  EXPECT_EQ(result.error().http, 409);
  EXPECT_EQ(result.error().reason, "AlreadyExists");
  EXPECT_FALSE(result.error().ambiguous);
  EXPECT_EQ(record_.Sent(), 1);
}

TEST_F(ClientTest, TooManyRequestsIsRetriedWhateverTheMethod) {
  for (Method method : {Method::kGet, Method::kPost, Method::kPut, Method::kPatch}) {
    EXPECT_TRUE(Outcome(method, {Answer(429), Answer(429)}).ok()) << ToString(method);
    EXPECT_EQ(record_.Sent(), 3);
  }
}

TEST_F(ClientTest, RetryAfterIsWaitedForAndNoLongerThanTheDeadline) {
  Time begin = BootTime();
  EXPECT_TRUE(Outcome(Method::kPost, {Answer(429, "{}", seconds(1))}).ok());
  EXPECT_GE(BootTime() - begin, seconds(1));

  ApiResult<std::string> result = Outcome(Method::kPost, {Answer(429, "{}", hours(1))});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ApiErrorKind::kTooManyRequests);
  EXPECT_EQ(result.error().retry_after, hours(1));
  EXPECT_EQ(record_.Sent(), 1);
}

TEST_F(ClientTest, WhatMayHaveBeenDoneIsRetriedOnlyWhereThatIsHarmless) {
  for (Method method : {Method::kGet, Method::kPost, Method::kDelete}) {
    EXPECT_TRUE(Outcome(method, {Answer(504), Error::Unavailable("cut")}).ok());
    EXPECT_EQ(record_.Sent(), 3) << ToString(method);
  }
  for (Method method : {Method::kPut, Method::kPatch}) {
    for (const Result<Response>& answer :
         {Result<Response>(Answer(504)), Result<Response>(Answer(500)),
          Result<Response>(Error::Unavailable("cut")), Result<Response>(Error::Timeout("late"))}) {
      ApiResult<std::string> result = Outcome(method, {answer});
      ASSERT_FALSE(result.ok());
      EXPECT_TRUE(result.error().ambiguous);
      EXPECT_EQ(record_.Sent(), 1) << ToString(method);
    }
  }
}

TEST_F(ClientTest, ARefusedTlsIsNotAmbiguous) {
  ApiResult<std::string> result = Outcome(Method::kPut, {Error::Denied("certificate")});
  ASSERT_FALSE(result.ok());
  EXPECT_FALSE(result.error().ambiguous);
  EXPECT_EQ(result.error().kind, ApiErrorKind::kTransport);
}

TEST_F(ClientTest, UnauthorizedIsTriedAgainForNewCredentialsAndThenGivenUp) {
  EXPECT_TRUE(Outcome(Method::kPut, {Answer(401)}).ok());
  ApiResult<std::string> result =
      Outcome(Method::kPut, {Answer(401), Answer(401), Answer(401), Answer(401)});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ApiErrorKind::kUnauthorized);
  EXPECT_EQ(record_.Sent(), 3);
}

TEST_F(ClientTest, AnAnswerThatIsNoObjectIsADecodeError) {
  for (const char* body : {"", "<html>", "{\"kind\":\"Pod\"", "[]", "null", "{"}) {
    ApiResult<std::string> result = Outcome(Method::kPost, {Answer(200, body)});
    ASSERT_FALSE(result.ok()) << body;
    EXPECT_EQ(result.error().kind, ApiErrorKind::kDecode);
    EXPECT_TRUE(result.error().ambiguous);
  }
}

TEST_F(ClientTest, RetriesEnd) {
  record_.answers.assign(100, Answer(429));
  auto client = Make({.attempts = 3});
  ApiResult<std::string> result = client->CallAndWait({Method::kPost, "/x", "{}"});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ApiErrorKind::kTooManyRequests);
  EXPECT_EQ(record_.Sent(), 3);
}

TEST_F(ClientTest, NothingIsWrittenWithoutThePermitNorTriedAgainOnceItIsLost) {
  std::atomic<int> asked = 0;
  auto client = Make({.permit = [&] { return ++asked == 1; }});
  record_.answers = {Answer(429)};
  ApiResult<std::string> result = client->CallAndWait({Method::kPost, "/x", "{}"});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().reason, "NotLeading");
  EXPECT_EQ(result.error().http, 0);
  EXPECT_FALSE(result.error().ambiguous);
  EXPECT_EQ(record_.Sent(), 1);
  EXPECT_FALSE(client->CallAndWait({Method::kDelete, "/x", ""}).ok());
  EXPECT_EQ(record_.Sent(), 1);
  EXPECT_TRUE(client->CallAndWait({Method::kGet, "/x", ""}).ok());
  EXPECT_EQ(asked, 3);
}

TEST_F(ClientTest, NoMoreThanTheWindowIsUnderWay) {
  auto client = Make({.max_in_flight = 5});
  record_.held = true;
  std::atomic<int> done = 0;
  std::promise<void> all;
  for (int i = 0; i < 50; ++i) {
    client->Call({Method::kPost, "/x", "{}"}, [&](const ApiResult<std::string>& result) {
      EXPECT_TRUE(result.ok());
      if (++done == 50) all.set_value();
    });
  }
  EXPECT_EQ(record_.Sent(), 5);
  EXPECT_EQ(client->load().in_flight, 5);
  EXPECT_EQ(client->load().queued, 45);
  {
    std::lock_guard lock(record_.mutex);
    record_.held = false;
    record_.changed.notify_all();
  }
  all.get_future().wait();
  EXPECT_EQ(record_.Sent(), 50);
}

TEST_F(ClientTest, ANamespaceWithManyRequestsWaitingHoldsNoOtherUp) {
  auto client = Make({.max_in_flight = 4});
  record_.held = true;
  std::atomic<int> done = 0;
  std::promise<void> all;
  const auto call = [&](const std::string& path, const CallTurn& turn) {
    client->Call(
        {Method::kPost, path, "{}"},
        [&](const ApiResult<std::string>&) {
          if (++done == 102) all.set_value();
        },
        turn);
  };
  for (int i = 0; i < 100; ++i) call("/crowd", {"crowd", Priority::kBackground});
  call("/new", {"other", Priority::kBackground});
  call("/lost", {"third", Priority::kUrgent});
  {
    std::lock_guard lock(record_.mutex);
    record_.held = false;
    record_.changed.notify_all();
  }
  all.get_future().wait();
  EXPECT_EQ(record_.requests.at(4).path, "/lost") << "after those that were under way";
  EXPECT_TRUE(record_.requests.at(5).path == "/new" || record_.requests.at(6).path == "/new");
}

TEST_F(ClientTest, ACallbackMayCall) {
  auto client = Make();
  std::promise<void> second;
  client->Call({Method::kGet, "/a", ""}, [&](const ApiResult<std::string>&) {
    client->Call({Method::kGet, "/b", ""},
                 [&](const ApiResult<std::string>&) { second.set_value(); });
  });
  second.get_future().wait();
  EXPECT_EQ(record_.Sent(), 2);
}

TEST_F(ClientTest, ItsEndEndsEveryCallOnce) {
  auto client = Make({.max_in_flight = 4});
  record_.held = true;
  std::atomic<int> ended = 0;
  for (int i = 0; i < 20; ++i) {
    client->Call({Method::kPost, "/x", "{}"}, [&](const ApiResult<std::string>& result) {
      EXPECT_EQ(result.error().kind, ApiErrorKind::kTransport);
      ++ended;
    });
  }
  client.reset();
  EXPECT_EQ(ended, 20);
}

TEST_F(ClientTest, ItsEndMayComeAtAnyMoment) {
  for (int i = 0; i < 200; ++i) {
    auto client = Make({.max_in_flight = 4});
    std::atomic<int> ended = 0;
    for (int j = 0; j < 20; ++j) {
      client->Call({Method::kPost, "/x", "{}"}, [&](const ApiResult<std::string>&) { ++ended; });
    }
    while (ended < i % 20) std::this_thread::yield();
    client.reset();
    EXPECT_EQ(ended, 20);
  }
}

TEST_F(ClientTest, EachAttemptIsRecorded) {
  std::mutex mutex;
  std::vector<CallRecord> seen;
  auto client = Make({.on_attempt = [&](const CallRecord& record) {
    std::lock_guard lock(mutex);
    seen.push_back(record);
  }});
  record_.answers = {Answer(429), Error::Timeout("late"), Answer(201)};
  EXPECT_TRUE(client->CallAndWait({Method::kPost, "/x", "{}"}).ok());
  client.reset();
  ASSERT_EQ(seen.size(), 3);
  EXPECT_EQ(seen[0].http, 429);
  EXPECT_EQ(seen[1].http, 0);
  EXPECT_EQ(seen[1].kind, ApiErrorKind::kTimeout);
  EXPECT_TRUE(seen[2].ok);
}

TEST(ClientWindowTest, HalvesOnceARoundTripAndGrowsByOneAWindow) {
  ClientWindow window(32);
  EXPECT_EQ(window.size(), 32);
  for (int i = 0; i < 32; ++i) window.OnAnswer(seconds(10), seconds(11), /*refused=*/true);
  EXPECT_EQ(window.size(), 16);
  for (int i = 0; i < 17; ++i) window.OnAnswer(seconds(12), seconds(12), false);
  EXPECT_EQ(window.size(), 17);
  window.OnAnswer(seconds(12), seconds(14), false);  // slow
  EXPECT_EQ(window.size(), 8);
  for (int i = 20; i < 60; ++i) window.OnAnswer(seconds(i), seconds(i), true);
  EXPECT_EQ(window.size(), ClientWindow::kMin);
  for (int i = 0; i < 10'000; ++i) window.OnAnswer(seconds(99), seconds(99), false);
  EXPECT_EQ(window.size(), 32);
}

}  // namespace
}  // namespace lockstep::kube
