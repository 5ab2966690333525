#include "operator/kube/watch/watch_thread.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "operator/kube/views.h"
#include "operator/kube/watch/watch.h"
#include "tests/operator/kube/scripted_transport.h"

namespace lockstep::kube::watch_thread_test {
namespace {

constexpr auto kLong = std::chrono::seconds(60);

// Batches, from the reflector's thread to the test's.
class Batches {
 public:
  WatchHandlers<PodView> Handlers() {
    return {.on_batch = [this](Batch<PodView> batch) {
      const std::lock_guard lock(mutex_);
      batches_.push_back(std::move(batch));
      changed_.notify_all();
    }};
  }
  bool WaitFor(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLong, [&] { return batches_.size() >= count; });
  }
  Batch<PodView> At(size_t index) {
    const std::lock_guard lock(mutex_);
    return batches_.at(index);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Batch<PodView>> batches_;
};

std::string Event(const std::string& type, const std::string& name, int version) {
  return R"({"type":")" + type + R"(","object":{"metadata":{"name":")" + name +
         R"(","resourceVersion":")" + std::to_string(version) + "\"}}}\n";
}

std::string EndOfState(int version) {
  return R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":")" +
         std::to_string(version) +
         R"(","annotations":{"k8s.io/initial-events-end":"true"}}}})"
         "\n";
}

TEST(Reflector, HandsOverTheStateAndThenEachChange) {
  ScriptedTransport transport;
  Batches batches;
  const Reflector<PodView> reflector(&transport, {.path = "/api/v1/pods"}, batches.Handlers());
  auto stream = transport.WaitForStream(kLong);
  ASSERT_TRUE(stream);
  stream->Head({.status = 200, .body = "", .retry_after = {}});
  stream->Data(Event("ADDED", "a", 2) + EndOfState(3));
  ASSERT_TRUE(batches.WaitFor(1));
  EXPECT_TRUE(batches.At(0).replace);
  stream->Data(Event("MODIFIED", "a", 5));
  ASSERT_TRUE(batches.WaitFor(2));
  EXPECT_EQ(batches.At(1).resource_version, "5");
}

TEST(Reflector, ListsWhereWatchListsAreRefused) {
  ScriptedTransport transport;
  Batches batches;
  const Reflector<PodView> reflector(&transport, {.path = "/api/v1/pods"}, batches.Handlers());
  auto stream = transport.WaitForStream(kLong);
  ASSERT_TRUE(stream);
  stream->Head({.status = 400, .body = "", .retry_after = {}});
  auto call = transport.WaitForCall(kLong);
  ASSERT_TRUE(call);
  EXPECT_EQ(call->request.path, "/api/v1/pods?limit=500");
  call->answer(Response{.status = 200,
                        .body = R"({"metadata":{"resourceVersion":"9"},"items":[]})",
                        .retry_after = {}});
  ASSERT_TRUE(batches.WaitFor(1));
  EXPECT_TRUE(transport.WaitForStream(kLong));
}

TEST(Reflector, StopsWhileAnAnswerIsOutstandingAndThenIgnoresIt) {
  ScriptedTransport transport;
  Batches batches;
  std::unique_ptr<ScriptedTransport::Call> call;
  {
    const Reflector<PodView> reflector(&transport, {.path = "/api/v1/pods"}, batches.Handlers());
    auto stream = transport.WaitForStream(kLong);
    ASSERT_TRUE(stream);
    stream->Head({.status = 400, .body = "", .retry_after = {}});
    call = transport.WaitForCall(kLong);
    ASSERT_TRUE(call);
  }
  call->answer(Response{.status = 200,
                        .body = R"({"metadata":{"resourceVersion":"9"},"items":[]})",
                        .retry_after = {}});
}

TEST(Reflector, StopsWhileTheTransportWaitsForRoom) {
  ScriptedTransport transport;
  std::mutex held;
  held.lock();
  std::thread sender;
  {
    // on_batch stands still, so that what comes fills the inbox.
    const Reflector<PodView> reflector(
        &transport, {.path = "/api/v1/pods"},
        {.on_batch = [&](const Batch<PodView>&) { const std::lock_guard lock(held); }});
    auto stream = transport.WaitForStream(kLong);
    ASSERT_TRUE(stream);
    stream->Head({.status = 200, .body = "", .retry_after = {}});
    stream->Data(EndOfState(3));
    sender = std::thread([stream] {
      const std::string megabyte(1 << 20, ' ');
      for (int i = 0; i < 10; ++i) stream->Data(megabyte);
    });
    ASSERT_TRUE(stream->WaitForBytes(size_t{5} << 20, kLong));
    held.unlock();
  }
  sender.join();
}

}  // namespace
}  // namespace lockstep::kube::watch_thread_test
